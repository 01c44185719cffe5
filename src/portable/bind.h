// From descriptions to objects again: in another call, or in another process that has imported the same modules.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "plan/segment.h"
#include "portable/object_ref.h"

namespace gramme::portable {

/// What a call's objects are found by.
class Finder {
 public:
  Finder(const source::Pool& pool, const plan::Roots& roots) : pool_(pool), roots_(roots) {}
  /// A new reference; null with a line in `missing` if nothing is there, or something that does not do the same.
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

/// The segment with these objects in the place of its own, in the order of visit(), a null standing for the one it has;
/// its guards are not bound to anything. The old segment is used up.
std::unique_ptr<plan::Segment> with_objects(std::unique_ptr<plan::Segment> segment,
                                            const std::vector<Owned<>>& objects);

}  // namespace gramme::portable
