// Lets upper rooms attach state to an object of a lower room. It is found by its type and destroyed with the object.
//
//   struct Contexts { … };                       // in the room further up; default-constructible
//   Contexts& contexts = extensions.get<Contexts>();  // made at the first request
#pragma once
#include <memory>
#include <unordered_map>

namespace gramme {

class Extensions {
 public:
  template <class T>
  T& get() {
    static const char key = 0;
    std::shared_ptr<void>& state = states_[&key];
    if (!state) state = std::make_shared<T>();
    return *static_cast<T*>(state.get());
  }

 private:
  std::unordered_map<const void*, std::shared_ptr<void>> states_;
};

}  // namespace gramme
