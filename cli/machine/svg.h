// Svg: a picture of boxes and words, written from the top of the file to its end.
#ifndef LOCKSTEP_CLI_MACHINE_SVG_H_
#define LOCKSTEP_CLI_MACHINE_SVG_H_

#include <string>
#include <string_view>

namespace lockstep::cli {

class Svg {
 public:
  // Lengths are pixels, from the left and the top. Colours as SVG names them: "#f3f6fa".
  void Box(double x, double y, double width, double height, std::string_view fill,
           std::string_view stroke = "#57606a");
  // From `x` on or, when `centred`, around it. May be anybody's text.
  void Text(double x, double y, std::string_view text, int size = 13, bool centred = false,
            std::string_view colour = "#1f2328");
  // The whole file, on white.
  std::string Finish(double width, double height) const;

 private:
  std::string body_;
};

// Pixels that `text` takes at most.
double TextWidth(std::string_view text, int size = 13);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_MACHINE_SVG_H_
