// One function for each kind of view step. Each returns false where PyTorch's operator would copy or raise.
#include "tape/geometry.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorUtils.h>

#include <algorithm>
#include <sstream>

namespace gramme::native {
namespace {

c10::DimVector numbers(const std::vector<Amount>& amounts, const Run& run) {
  c10::DimVector result;
  for (const Amount& amount : amounts) result.push_back(amount.get(run));
  return result;
}

int64_t rank(const Geometry& geometry) { return static_cast<int64_t>(geometry.sizes.size()); }

/// Wraps a negative dimension; false if it is out of range.
bool wrap(int64_t& dimension, int64_t rank) {
  if (dimension < 0) dimension += rank;
  return 0 <= dimension && dimension < rank;
}

/// Counts elements; false if the product may overflow.
bool count(at::IntArrayRef sizes, int64_t& elements) {
  elements = 1;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(elements, size, &elements)) return false;
  return true;
}

bool is_contiguous(const Geometry& geometry) {
  if (std::ranges::find(geometry.sizes, 0) != geometry.sizes.end()) return true;
  int64_t expected = 1;
  for (size_t d = geometry.sizes.size(); d-- > 0;) {
    if (geometry.sizes[d] == 1) continue;
    if (geometry.strides[d] != expected) return false;
    expected *= geometry.sizes[d];
  }
  return true;
}

bool fill_in(c10::DimVector& sizes, int64_t elements) {
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& size : sizes) {
    if (size == -1 && !open) {
      open = &size;
    } else if (size < 0 || __builtin_mul_overflow(known, size, &known)) {
      return false;
    }
  }
  if (!open) return known == elements;
  if (known == 0 || elements % known != 0) return false;
  *open = elements / known;
  return true;
}

bool view(c10::DimVector sizes, Geometry& geometry) {
  int64_t elements;
  if (!count(geometry.sizes, elements) || !fill_in(sizes, elements)) return false;
  std::optional<c10::DimVector> strides = at::detail::computeStride(geometry.sizes, geometry.strides, sizes);
  if (!strides) return false;
  geometry.sizes = std::move(sizes);
  geometry.strides = std::move(*strides);
  return true;
}

bool expand(const c10::DimVector& wanted, Geometry& geometry) {
  const auto added = static_cast<int64_t>(wanted.size()) - rank(geometry);
  if (added < 0) return false;
  c10::DimVector sizes(wanted.size()), strides(wanted.size());
  for (size_t d = wanted.size(); d-- > 0;) {
    const int64_t below = static_cast<int64_t>(d) - added;
    const int64_t size = below >= 0 ? geometry.sizes[static_cast<size_t>(below)] : 1;
    const int64_t stride = below >= 0              ? geometry.strides[static_cast<size_t>(below)]
                           : d + 1 < wanted.size() ? sizes[d + 1] * strides[d + 1]
                                                   : 1;
    const int64_t target = wanted[d] == -1 && below >= 0 ? size : wanted[d];
    if (target < 0 || (size != target && size != 1)) return false;
    sizes[d] = target;
    strides[d] = size == target && rank(geometry) > 0 ? stride : 0;
  }
  geometry.sizes = std::move(sizes);
  geometry.strides = std::move(strides);
  return true;
}

bool permute(const c10::DimVector& dimensions, Geometry& geometry) {
  if (dimensions.size() != geometry.sizes.size()) return false;
  Geometry result{{}, {}, geometry.offset};
  uint64_t seen = 0;
  for (int64_t d : dimensions) {
    if (!wrap(d, rank(geometry)) || d >= 64 || (seen >> d & 1)) return false;
    seen |= uint64_t{1} << d;
    result.sizes.push_back(geometry.sizes[static_cast<size_t>(d)]);
    result.strides.push_back(geometry.strides[static_cast<size_t>(d)]);
  }
  geometry = std::move(result);
  return true;
}

void unsqueeze(int64_t at, Geometry& geometry) {
  const auto d = static_cast<size_t>(at);
  const int64_t stride = d < geometry.sizes.size() ? geometry.sizes[d] * geometry.strides[d] : 1;
  geometry.sizes.insert(geometry.sizes.begin() + at, 1);
  geometry.strides.insert(geometry.strides.begin() + at, stride);
}

bool select(size_t d, int64_t index, Geometry& geometry) {
  const int64_t size = geometry.sizes[d];
  if (index < -size || index >= size) return false;
  geometry.offset += (index < 0 ? index + size : index) * geometry.strides[d];
  geometry.sizes.erase(geometry.sizes.begin() + static_cast<ptrdiff_t>(d));
  geometry.strides.erase(geometry.strides.begin() + static_cast<ptrdiff_t>(d));
  return true;
}

bool slice(size_t d, int64_t start, int64_t stop, int64_t step, Geometry& geometry) {
  if (step < 1) return false;
  const int64_t size = geometry.sizes[d];
  start = std::clamp(start < 0 ? start + size : start, int64_t{0}, size);
  stop = std::clamp(stop < 0 ? stop + size : stop, start, size);
  geometry.offset += start * geometry.strides[d];
  geometry.sizes[d] = (stop - start + step - 1) / step;
  return !__builtin_mul_overflow(geometry.strides[d], step, &geometry.strides[d]);
}

bool index(const std::vector<IndexItem>& items, const Run& run, Geometry& geometry) {
  const int64_t taken = std::ranges::count_if(
      items, [](const IndexItem& item) { return item.kind == IndexItem::Integer || item.kind == IndexItem::Slice; });
  const int64_t passed = rank(geometry) - taken;  // dimensions covered by the ellipsis
  if (passed < 0) return false;
  int64_t d = 0;
  for (const IndexItem& item : items) {
    if (item.kind == IndexItem::None) unsqueeze(d++, geometry);
    if (item.kind == IndexItem::Ellipsis) d += passed;
    if (item.kind == IndexItem::Integer && !select(static_cast<size_t>(d), item.start.get(run), geometry)) return false;
    if (item.kind == IndexItem::Slice &&
        !slice(static_cast<size_t>(d++), item.start.get(run), item.stop.get(run), item.step, geometry))
      return false;
  }
  return true;
}

/// One piece of a split; all have equal size except the last.
bool piece(const ViewStep& step, const Run& run, Geometry& geometry) {
  int64_t d = step.a;
  const int64_t size = step.sizes[0].get(run), pieces = step.sizes[1].constant;
  if (!wrap(d, rank(geometry)) || size < 1) return false;
  const int64_t whole = geometry.sizes[static_cast<size_t>(d)];
  if (std::max<int64_t>(whole / size + (whole % size != 0), 1) != pieces) return false;
  const bool is_last = step.b + 1 == pieces;
  return slice(static_cast<size_t>(d), step.b * size, is_last ? whole : (step.b + 1) * size, 1, geometry);
}

std::vector<at::indexing::TensorIndex> key_of(const std::vector<IndexItem>& items, const Run& run) {
  std::vector<at::indexing::TensorIndex> key;
  for (const IndexItem& item : items) {
    switch (item.kind) {
      case IndexItem::None:
        key.emplace_back(at::indexing::None);
        break;
      case IndexItem::Ellipsis:
        key.emplace_back(at::indexing::Ellipsis);
        break;
      case IndexItem::Integer:
        key.emplace_back(item.start.get(run));
        break;
      case IndexItem::Slice:
        key.emplace_back(at::indexing::Slice(item.start.get(run), item.stop.get(run), item.step));
        break;
    }
  }
  return key;
}

// ---- printing

void print(std::ostream& out, const Amount& amount, const Tape& tape) {
  if (amount.number < 0)
    out << amount.constant;
  else
    out << shape::print(tape.expressions[static_cast<size_t>(amount.number)]);
}

void print(std::ostream& out, const IndexItem& item, const Tape& tape) {
  switch (item.kind) {
    case IndexItem::None:
      out << "None";
      break;
    case IndexItem::Ellipsis:
      out << "...";
      break;
    case IndexItem::Integer:
      print(out, item.start, tape);
      break;
    case IndexItem::Slice:
      if (item.start.number >= 0 || item.start.constant != 0) print(out, item.start, tape);
      out << ":";
      if (item.stop.number >= 0 || item.stop.constant != IndexItem::kToTheEnd) print(out, item.stop, tape);
      if (item.step != 1) out << ":" << item.step;
      break;
  }
}

template <class Items>
void print_all(std::ostream& out, const Items& items, const Tape& tape) {
  out << "[";
  for (size_t i = 0; i < items.size(); ++i) {
    out << (i ? ", " : "");
    print(out, items[i], tape);
  }
  out << "]";
}

}  // namespace

bool apply(const ViewStep& step, const Run& run, Geometry& geometry) {
  switch (step.kind) {
    case ViewStep::View:
    case ViewStep::Reshape:
      return view(numbers(step.sizes, run), geometry);
    case ViewStep::Contiguous:
      return is_contiguous(geometry);
    case ViewStep::Expand:
      return expand(numbers(step.sizes, run), geometry);
    case ViewStep::Permute:
      return permute(numbers(step.sizes, run), geometry);
    case ViewStep::Transpose: {
      int64_t a = step.a, b = step.b;
      if (!wrap(a, rank(geometry)) || !wrap(b, rank(geometry))) return false;
      std::swap(geometry.sizes[static_cast<size_t>(a)], geometry.sizes[static_cast<size_t>(b)]);
      std::swap(geometry.strides[static_cast<size_t>(a)], geometry.strides[static_cast<size_t>(b)]);
      return true;
    }
    case ViewStep::Unsqueeze: {
      int64_t d = step.a;
      if (!wrap(d, rank(geometry) + 1)) return false;
      unsqueeze(d, geometry);
      return true;
    }
    case ViewStep::Piece:
      return piece(step, run, geometry);
    case ViewStep::Index:
      return index(step.items, run, geometry);
  }
  return false;
}

at::Tensor call(const ViewStep& step, const Run& run, const at::Tensor& source) {
  switch (step.kind) {
    case ViewStep::View:
      return source.view(numbers(step.sizes, run));
    case ViewStep::Reshape:
      return source.reshape(numbers(step.sizes, run));
    case ViewStep::Contiguous:
      return source.contiguous();
    case ViewStep::Expand:
      return source.expand(numbers(step.sizes, run));
    case ViewStep::Permute:
      return source.permute(numbers(step.sizes, run));
    case ViewStep::Transpose:
      return source.transpose(step.a, step.b);
    case ViewStep::Unsqueeze:
      return source.unsqueeze(step.a);
    case ViewStep::Piece: {
      std::vector<at::Tensor> pieces = source.split(step.sizes[0].get(run), step.a);
      TORCH_CHECK(static_cast<int64_t>(pieces.size()) == step.sizes[1].constant, "aten::split returned ", pieces.size(),
                  " tensors where the recorded call returned ", step.sizes[1].constant);
      return pieces[static_cast<size_t>(step.b)];
    }
    case ViewStep::Index:
      return at::indexing::get_item(source, key_of(step.items, run));
  }
  return {};
}

std::string print(const ViewStep& step, const Tape& tape) {
  static constexpr const char* kNames[] = {"view",    "reshape",   "contiguous", "expand", "transpose",
                                           "permute", "unsqueeze", "piece",      "index"};
  std::ostringstream out;
  out << kNames[step.kind];
  if (step.kind == ViewStep::Transpose) out << " " << step.a << " " << step.b;
  if (step.kind == ViewStep::Unsqueeze) out << " " << step.a;
  if (step.kind == ViewStep::Piece) out << " " << step.b << " in " << step.a;
  if (!step.sizes.empty()) print_all(out << " ", step.sizes, tape);
  if (!step.items.empty()) print_all(out << " ", step.items, tape);
  return out.str();
}

}  // namespace gramme::native
