// Signatures of tensors, compared by their bytes.
//
// A guard on a tensor costs one masked compare of the TensorImpl from its sizes on (120 bytes) and a look at its
// autograd metadata. Where the compared members lie is probed when the module is loaded, since most of them are
// protected and some are bit-fields. What a check costs is the cache lines it touches.
#include "aten/spec.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <string_view>
#include <unordered_map>

#include "aten/python.h"
#include "base/error.h"
#include "base/once.h"
#include "base/process.h"
#include "base/ref.h"

namespace gramme::aten {
namespace {

constexpr size_t kWords = sizeof(c10::TensorImpl) / 8;
constexpr size_t kFirst = 7;  // no compared member lies before: asserted when the layout is probed
constexpr int kInlineDims = C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE;
using Image = std::array<uint64_t, kWords>;

/// A TensorSpec with the bytes that a matching TensorImpl has under the mask, and what else a hit reads of its type.
struct Interned : TensorSpec {
  PyTypeObject* type = nullptr;
  bool requires_grad = false, is_leaf = true;
  alignas(64) Image expected{}, mask{};
  int dims = 0;
  int sparse_dims = 0;
  bool by_image = false;   // the compare of images says it all, but for autograd
  bool comparable = true;  // false: sizes are symbolic or made by the subclass, or it has a tangent; it never matches
};

/// Gives access to TensorImpl's protected members.
struct Peek : c10::TensorImpl {
  template <class Set>
  static Image image_of(Set set) {
    alignas(c10::TensorImpl) Image image{};
    set(reinterpret_cast<Peek*>(image.data()));
    return image;
  }
  /// All bits of key set, dtype, device and the flags that change the meaning of the sizes.
  static Image fixed_mask() {
    return image_of([](Peek* t) {
      std::memset(static_cast<void*>(&t->key_set_), 0xff, sizeof t->key_set_);
      std::memset(static_cast<void*>(&t->data_type_), 0xff, sizeof t->data_type_);
      std::memset(static_cast<void*>(&t->device_opt_), 0xff, sizeof t->device_opt_);
      t->is_wrapped_number_ = true;
      t->sizes_strides_policy_ = 3;
      t->has_symbolic_sizes_strides_ = true;
      t->device_policy_ = true;
      t->layout_policy_ = true;
    });
  }
  static size_t sizes_word() {
    auto* base = reinterpret_cast<Peek*>(alignof(Peek) * 64);
    return (reinterpret_cast<size_t>(&base->sizes_and_strides_) - reinterpret_cast<size_t>(base)) / 8;
  }
  static const c10::impl::SizesAndStrides& stored(const c10::TensorImpl* t) {
    return static_cast<const Peek*>(t)->sizes_and_strides_;
  }
  static int64_t stored_offset(const c10::TensorImpl* t) { return static_cast<const Peek*>(t)->storage_offset_; }
  static bool default_policy(const c10::TensorImpl* t) { return !static_cast<const Peek*>(t)->sizes_strides_policy_; }
  static bool python_sizes(const c10::TensorImpl* t) {
    return static_cast<const Peek*>(t)->python_custom_sizes_strides_;
  }
  static c10::Device stored_device(const c10::TensorImpl* t) {
    return static_cast<const Peek*>(t)->device_opt_.value_or(c10::Device(c10::kCPU));
  }
};

size_t find_autograd_word() {
  at::Tensor probe = at::ones({2}).set_requires_grad(true);
  const c10::TensorImpl* impl = probe.unsafeGetTensorImpl();
  const void* meta = impl->autograd_meta();
  for (size_t i = 1; i < kWords; ++i)
    if (reinterpret_cast<void* const*>(impl)[i] == meta) return i;
  GRAMME_BUG("TensorImpl has no pointer to its autograd metadata");
}

struct Layout {
  Image fixed = Peek::fixed_mask();
  size_t sizes = Peek::sizes_word();  // size, inline sizes, inline strides
  size_t autograd = find_autograd_word();
  Layout() {
    GRAMME_ASSERT(sizes >= kFirst);
    GRAMME_ASSERT(std::all_of(fixed.begin(), fixed.begin() + kFirst, [](uint64_t word) { return word == 0; }));
  }
};

const Layout& layout() {
  const Layout* layout = once([] { return new Layout; });
  return *layout;
}

/// Segments point to specs.
struct State {
  size_t autograd_word = 0;   // GIL, a word: layout().autograd, set before the first spec exists
  std::deque<Interned> pool;  // GIL: all specs
  std::unordered_map<std::string, const Interned*> by_key;  // GIL: those of the pool

  size_t size() const { return pool.size(); }
};
Lasting<State> state;

const torch::autograd::AutogradMeta* autograd_of(const c10::TensorImpl* impl) {
  return reinterpret_cast<torch::autograd::AutogradMeta* const*>(impl)[state->autograd_word];
}

bool is_leaf(const at::Tensor& tensor, const torch::autograd::AutogradMeta& meta) {
  return meta.is_view_ ? tensor.is_leaf() : !meta.grad_fn_;  // a view's grad_fn may be out of date: asking rebuilds it
}

using ViewMeta = torch::autograd::DifferentiableViewMeta;

bool is_special(const torch::autograd::AutogradMeta& meta) {
  if (!meta.is_view_) return false;
  const auto& view = static_cast<const ViewMeta&>(meta);
  if (!view.has_bw_view()) return false;
  if (view.get_creation_meta() != torch::autograd::CreationMeta::DEFAULT) return true;
  const at::Tensor& base = view.get_backward_view().base_;
  return base.requires_grad() && base.is_leaf();
}

/// A special view whose memory was written later: asking for its grad_fn raises. No guard accepts one.
bool is_refused(const at::Tensor& tensor, const torch::autograd::AutogradMeta& meta) {
  return is_special(meta) && !tensor.is_inference() &&
         static_cast<const ViewMeta&>(meta).get_attr_version() != tensor._version();
}

bool same_view(const Interned& spec, const at::Tensor& tensor, const torch::autograd::AutogradMeta& meta) {
  if (spec.compares_views && is_special(meta) != spec.special_view) return false;
  if (meta.requires_grad() != spec.requires_grad) return false;
  if (!spec.requires_grad) return true;
  return !is_refused(tensor, meta) && tensor.is_leaf() == spec.is_leaf;
}

/// True if any tensor can have a tangent now. Takes a lock, so it pays only for many tensors.
bool dual_level_entered() { return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr; }

/// A dual tensor of forward-mode AD: its dispatch keys do not show the tangent, so no guard accepts one.
bool has_tangent(const torch::autograd::AutogradMeta& meta) { return meta.fw_grad_ && !meta.fw_grad_->empty(); }

[[gnu::always_inline]] inline bool same_autograd(const Interned& spec, const at::Tensor& tensor, bool tangents) {
  if (!spec.compares_autograd && !tangents) return true;
  const auto* meta = autograd_of(tensor.unsafeGetTensorImpl());
  if (!meta) return !spec.compares_autograd || !(spec.requires_grad || spec.special_view);
  if (tangents && has_tangent(*meta)) return false;
  if (!spec.compares_autograd) return true;
  if (meta->is_view_) return same_view(spec, tensor, *meta);
  const bool requires_grad = meta->requires_grad_ || meta->grad_fn_;
  if (requires_grad != spec.requires_grad || spec.special_view) return false;
  return !requires_grad || !meta->grad_fn_ == spec.is_leaf;
}

/// The loop has a fixed length so that it is unrolled and vectorised where it is inlined.
[[gnu::always_inline]] inline bool same_image(const uint64_t* expected, const uint64_t* mask, const uint64_t* actual) {
  uint64_t difference = 0;
  for (size_t i = kFirst; i < kWords; ++i) difference |= (actual[i] ^ expected[i]) & mask[i];
  return difference == 0;
}

const uint64_t* words_of(const at::Tensor& tensor) {
  return reinterpret_cast<const uint64_t*>(tensor.unsafeGetTensorImpl());
}

bool agree(c10::IntArrayRef actual, const std::vector<shape::SymInt>& expected) {
  return std::equal(actual.begin(), actual.end(), expected.begin(), expected.end(),
                    [](int64_t a, shape::SymInt b) { return b == a || b.is_any(); });
}

/// For tensors whose sizes are not inline: more than five dimensions, sparse layouts.
bool same_stored(const Interned& spec, const at::Tensor& tensor) {
  if (!spec.comparable || !same_image(spec.expected.data(), spec.mask.data(), words_of(tensor))) return false;
  if (spec.tensor->opaque) return true;  // guards on the inner tensors compare sizes
  const auto& stored = Peek::stored(tensor.unsafeGetTensorImpl());
  const TensorType& type = *spec.tensor;
  if (!agree(stored.sizes_arrayref(), type.sizes)) return false;
  if (!type.strides.empty() && !agree(stored.strides_arrayref(), type.strides)) return false;
  return type.layout != static_cast<int8_t>(c10::kSparse) || tensor.sparse_dim() == spec.sparse_dims;
}

void take_image(Interned& spec, const TensorDescription& type, const uint64_t* words) {
  std::copy(layout().fixed.begin(), layout().fixed.end(), spec.mask.begin());
  spec.by_image = spec.comparable && spec.dims <= kInlineDims && type.layout == static_cast<int8_t>(c10::kStrided);
  if (spec.by_image) {
    uint64_t* mask = spec.mask.data() + layout().sizes;
    mask[0] = ~uint64_t(0);
    std::fill_n(mask + 1, spec.dims, ~uint64_t(0));
    std::fill_n(mask + 1 + kInlineDims, spec.dims, ~uint64_t(0));
  }
  for (size_t i = 0; i < kWords; ++i) spec.expected[i] = words[i] & spec.mask[i];
}

/// The members that make two signatures different, as bytes.
std::string signature_key(const Interned& spec) {
  std::string key;
  auto add = [&key](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  add(spec.tensor), add(spec.keys), add(spec.special_view), add(spec.compares_views), add(spec.compares_autograd);
  add(spec.sparse_dims), add(spec.comparable);
  for (size_t i = kFirst; i < kWords; ++i) add(spec.expected[i] & layout().fixed[i]);  // flags without a member
  return key;
}

void set_type(Interned& spec, const TensorType* tensor) {
  spec.tensor = tensor;
  spec.type = tensor->type;
  spec.requires_grad = tensor->requires_grad;
  spec.is_leaf = tensor->is_leaf;
}

Interned describe(PyObject* tensor) {
  const at::Tensor& self = tensor_of(tensor);
  const c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  TensorDescription type{};
  type.type = Py_TYPE(tensor);
  type.dtype = static_cast<int8_t>(c10::typeMetaToScalarType(impl->dtype()));
  c10::Device device = Peek::stored_device(impl);
  type.device_type = static_cast<int8_t>(device.type());
  type.device_index = device.index();
  bool sparse = impl->key_set().has(c10::DispatchKey::Python) ? false : self.layout() != c10::kStrided;
  const bool jagged = is_jagged(self);
  type.layout = static_cast<int8_t>(jagged ? c10::kJagged : sparse ? self.layout() : c10::kStrided);
  const auto* meta = autograd_of(impl);
  type.requires_grad = meta && meta->requires_grad();
  const bool refused = type.requires_grad && is_refused(self, *meta);
  type.is_leaf = !type.requires_grad || (!refused && is_leaf(self, *meta));
  type.is_inference = self.is_inference();
  type.is_conj = self.is_conj();
  type.is_neg = self.is_neg();
  Interned spec;
  spec.keys = impl->key_set().raw_repr();
  spec.special_view = meta && is_special(*meta);
  const bool has_sizes = !impl->has_symbolic_sizes_strides() && !Peek::python_sizes(impl) && !impl->is_nested() &&
                         (sparse || Peek::default_policy(impl));
  spec.comparable = !refused && !(meta && has_tangent(*meta)) && (has_sizes || jagged);
  type.opaque = jagged || !spec.comparable;
  if (!type.opaque) {
    const auto& stored = Peek::stored(impl);
    type.sizes.assign(stored.sizes_arrayref().begin(), stored.sizes_arrayref().end());
    if (!sparse) {
      type.strides.assign(stored.strides_arrayref().begin(), stored.strides_arrayref().end());
      type.storage_offset = impl->storage_offset();
    }
    if (self.layout() == c10::kSparse) spec.sparse_dims = static_cast<int>(self.sparse_dim());
  }
  spec.dims = static_cast<int>(type.sizes.size());
  take_image(spec, type, words_of(self));
  set_type(spec, interned(std::move(type)));
  return spec;
}

}  // namespace

namespace {
const Interned* intern(Interned&& spec) {
  auto [it, fresh] = state->by_key.try_emplace(signature_key(spec), nullptr);
  if (fresh) {
    state->pool.push_back(std::move(spec));
    it->second = &state->pool.back();
  }
  return it->second;
}
}  // namespace

const TensorSpec* tensor_spec(PyObject* tensor) {
  state->autograd_word = layout().autograd;
  const Interned* spec = intern(describe(tensor));
  GRAMME_ASSERT(!spec->comparable || matches(*spec, tensor));
  return spec;
}

const TensorSpec* without_autograd(const TensorSpec& spec) {
  Interned twin = static_cast<const Interned&>(spec);
  set_type(twin, with_requires_grad(spec.tensor, false, true));
  twin.compares_autograd = twin.special_view = twin.compares_views = false;
  return intern(std::move(twin));
}

const TensorSpec* without_views(const TensorSpec& spec) {
  Interned twin = static_cast<const Interned&>(spec);
  twin.compares_views = twin.special_view = false;
  return intern(std::move(twin));
}

const TensorSpec* with_varying(const TensorSpec& spec, uint64_t sizes, uint64_t strides) {
  Interned twin = static_cast<const Interned&>(spec);
  TensorDescription type = *spec.tensor;
  auto let_vary = [&](std::vector<shape::SymInt>& numbers, uint64_t which, size_t first_word) {
    if (numbers.size() > 64) return uint64_t(0);
    uint64_t varying = 0;
    for (size_t d = 0; d < numbers.size(); ++d) {
      if (!(which >> d & 1)) continue;
      varying |= uint64_t(1) << d;
      numbers[d] = shape::SymInt::any();
      if (twin.by_image) twin.mask[first_word + d] = twin.expected[first_word + d] = 0;
    }
    return varying;
  };
  twin.varying_sizes |= let_vary(type.sizes, sizes, layout().sizes + 1);
  twin.varying_strides |= let_vary(type.strides, strides, layout().sizes + 1 + kInlineDims);
  if (twin.varies()) type.storage_offset = 0;
  set_type(twin, interned(std::move(type)));
  return intern(std::move(twin));
}

int64_t size_at(PyObject* tensor, int64_t dim) {
  return Peek::stored(tensor_of(tensor).unsafeGetTensorImpl()).size_at_unchecked(static_cast<size_t>(dim));
}

int64_t stride_at(PyObject* tensor, int64_t dim) {
  return Peek::stored(tensor_of(tensor).unsafeGetTensorImpl()).stride_at_unchecked(static_cast<size_t>(dim));
}

int64_t offset_of(PyObject* tensor) { return Peek::stored_offset(tensor_of(tensor).unsafeGetTensorImpl()); }

namespace {
[[gnu::always_inline]] inline bool match(const TensorSpec& signature, PyObject* object, bool tangents) {
  const auto& spec = static_cast<const Interned&>(signature);
  if (Py_TYPE(object) != spec.type) return false;
  const at::Tensor& tensor = tensor_of(object);
  if (!tensor.defined()) return false;
  bool same =
      spec.by_image ? same_image(spec.expected.data(), spec.mask.data(), words_of(tensor)) : same_stored(spec, tensor);
  return same && same_autograd(spec, tensor, tangents);
}

constexpr size_t kAhead = 12;  // tensors; a graph run has usually driven them out of the nearer caches

[[gnu::always_inline]] inline void prefetch_impl(const TensorSpec& spec, PyObject* object) {
  if (Py_TYPE(object) != static_cast<const Interned&>(spec).type) return;
  const char* impl = reinterpret_cast<const char*>(words_of(tensor_of(object)));
  __builtin_prefetch(impl + kFirst * 8);
  __builtin_prefetch(impl + kWords * 8 - 1);
}
}  // namespace

// Compiled once for each width of vector registers: 3 ns a tensor with AVX.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define GRAMME_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define GRAMME_VECTORISED
#endif

GRAMME_VECTORISED bool matches(const TensorSpec& spec, PyObject* object) { return match(spec, object, true); }

[[gnu::hot]] GRAMME_VECTORISED bool all_match(const TensorCheck* checks, size_t count, PyObject* const* objects) {
  const bool tangents = count < 16 || dual_level_entered();
  for (size_t i = 0; i < count; ++i) {
    if (i + 2 * kAhead < count) __builtin_prefetch(objects[checks[i + 2 * kAhead].index]);
    if (i + kAhead < count) prefetch_impl(*checks[i + kAhead].spec, objects[checks[i + kAhead].index]);
    if (!match(*checks[i].spec, objects[checks[i].index], tangents)) [[unlikely]]
      return false;
  }
  return true;
}

}  // namespace gramme::aten
