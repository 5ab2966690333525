// A view that draws for its own width in pixels: draw(props, state) with state.width.
import { Component, h } from "preact";

export class Sized extends Component {
  constructor(props) {
    super(props);
    this.state = { width: 0 };
    this.hold = (element) => {
      this.box = element;
    };
  }

  componentDidMount() {
    this.observer = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width !== this.state.width) this.setState({ width });
    });
    this.observer.observe(this.box);
  }

  componentWillUnmount() {
    this.observer.disconnect();
  }

  render(props, state) {
    return <div ref={this.hold}>{state.width ? this.draw(props, state) : null}</div>;
  }
}
