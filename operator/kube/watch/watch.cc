#include "operator/kube/watch/watch.h"

#include <utility>

#include "operator/kube/views.h"
#include "operator/kube/watch/watch_sink.h"
#include "operator/kube/watch/watch_thread.h"

namespace lockstep::kube {

template <typename T>
Reflector<T>::Reflector(Transport* transport, const WatchOptions& options,
                        WatchHandlers<T> handlers)
    : sink_(std::make_unique<TypedSink<T>>(std::move(handlers), options.name_space)),
      thread_(std::make_unique<WatchThread>(transport, options, sink_.get())) {}

template <typename T>
Reflector<T>::~Reflector() = default;

template class Reflector<JobView>;
template class Reflector<PodView>;
template class Reflector<ServiceView>;
template class Reflector<SliceView>;
template class Reflector<NodeView>;
template class Reflector<WorkloadView>;
template class Reflector<FlavorView>;
template class Reflector<ClaimView>;

}  // namespace lockstep::kube
