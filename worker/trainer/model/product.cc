#include "worker/trainer/model/product.h"

#include <cassert>
#include <cstdint>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <vector>

extern "C" void omp_set_num_threads(int count);  // libgomp's, which oneDNN runs on

namespace lockstep::trainer {
namespace {

dnnl_dim_t Dim(size_t n) { return static_cast<dnnl_dim_t>(n); }

// Primitives take some 100 microseconds to make, so each kind is made once. They are stateless:
// with the scratchpad passed in, any thread may run one that another made.
class Bf16Products {
 public:
  struct Product {
    dnnl::memory::desc a;
    dnnl::memory::desc b;
    dnnl::memory::desc c;
    dnnl::memory::desc scratchpad;
    dnnl::matmul primitive;
  };
  using Key = std::tuple<size_t, size_t, size_t, size_t, bool, size_t, bool, size_t, bool>;

  const Product& For(const Size& size, Operand<Bf16> a, Operand<Bf16> b, Output<float> c) {
    const Key key{size.m,   size.n,       size.k,   a.stride, a.transposed,
                  b.stride, b.transposed, c.stride, c.add};
    const std::lock_guard lock(mutex_);
    const auto found = products_.find(key);
    if (found != products_.end()) return found->second;
    return products_.emplace(key, Make(size, a, b, c)).first->second;
  }
  const dnnl::engine& engine() const { return engine_; }

 private:
  static dnnl::memory::dims Strides(const Operand<Bf16>& x) {
    if (x.transposed) return {1, Dim(x.stride)};
    return {Dim(x.stride), 1};
  }

  Product Make(const Size& size, Operand<Bf16> a, Operand<Bf16> b, Output<float> c) {
    using Type = dnnl::memory::data_type;
    const auto [m, n, k] = size;
    const dnnl::memory::desc a_desc({Dim(m), Dim(k)}, Type::bf16, Strides(a));
    const dnnl::memory::desc b_desc({Dim(k), Dim(n)}, Type::bf16, Strides(b));
    const dnnl::memory::desc c_desc({Dim(m), Dim(n)}, Type::f32,
                                    dnnl::memory::dims{Dim(c.stride), 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (c.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc made(dnnl::matmul::desc(a_desc, b_desc, c_desc), attributes,
                                            engine_);
    return {a_desc, b_desc, c_desc, made.scratchpad_desc(), dnnl::matmul(made)};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::mutex mutex_;
  std::map<Key, Product> products_;
};

Bf16Products& SharedBf16Products() {
  static Bf16Products products;
  return products;
}

dnnl::memory Memory(const dnnl::memory::desc& desc, const void* data) {
  return {desc, SharedBf16Products().engine(), const_cast<void*>(data)};
}

}  // namespace

void Multiply(const Size& size, Operand<float> a, Operand<float> b, Output<float> c) {
  omp_set_num_threads(1);
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', Dim(size.m), Dim(size.n),
                 Dim(size.k), 1.0F, a.data, Dim(a.stride), b.data, Dim(b.stride),
                 c.add ? 1.0F : 0.0F, c.data, Dim(c.stride));
  assert(status == dnnl_success);
  static_cast<void>(status);
}

void Multiply(const Size& size, Operand<Bf16> a, Operand<Bf16> b, Output<float> c) {
  omp_set_num_threads(1);
  const Bf16Products::Product& product = SharedBf16Products().For(size, a, b, c);
  std::vector<uint8_t> scratchpad(product.scratchpad.get_size());
  dnnl::stream stream(SharedBf16Products().engine());
  product.primitive.execute(stream,
                            {{DNNL_ARG_SRC, Memory(product.a, a.data)},
                             {DNNL_ARG_WEIGHTS, Memory(product.b, b.data)},
                             {DNNL_ARG_DST, Memory(product.c, c.data)},
                             {DNNL_ARG_SCRATCHPAD, Memory(product.scratchpad, scratchpad.data())}});
  stream.wait();
}

void Multiply(const Size& size, Operand<double> a, Operand<double> b, Output<double> c) {
  const auto at = [](const Operand<double>& x, size_t row, size_t column) {
    return x.transposed ? x.data[column * x.stride + row] : x.data[row * x.stride + column];
  };
  for (size_t i = 0; i < size.m; ++i) {
    for (size_t j = 0; j < size.n; ++j) {
      double sum = c.add ? c.data[i * c.stride + j] : 0;
      for (size_t l = 0; l < size.k; ++l) sum += at(a, i, l) * at(b, l, j);
      c.data[i * c.stride + j] = sum;
    }
  }
}

}  // namespace lockstep::trainer
