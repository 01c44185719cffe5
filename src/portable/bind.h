// Finds the objects of descriptions again, in another call or in another process that has imported the same modules.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "plan/segment.h"
#include "portable/object_ref.h"

namespace gramme::portable {

/// Finds objects by their descriptions, by name or in one call.
class Finder {
 public:
  Finder(const source::Pool& pool, const plan::Roots& roots) : pool_(pool), roots_(roots) {}
  /// A new reference; null with a line in `missing` if there is no object, or one with another digest.
  Owned<> find(const ObjectRef& ref);
  std::vector<std::string> missing;

 private:
  Owned<> read(const source::Source* source) const;
  Owned<> in_call(const ObjectRef& ref) const;
  Owned<> all(const ObjectRef& ref);
  Owned<> bound(const ObjectRef& ref);

  const source::Pool& pool_;
  const plan::Roots& roots_;
};

/// The segment with these objects in place of its own, in the order of visit(); null keeps the present one. Its guards
/// are not bound yet. The old segment is consumed.
std::unique_ptr<plan::Segment> with_objects(std::unique_ptr<plan::Segment> segment,
                                            const std::vector<Owned<>>& objects);

}  // namespace gramme::portable
