// The table of rules, by qualified name and file suffix.
#include "protocol/call_rules.h"

#include <string>
#include <unordered_map>

#include "base/process.h"
#include "base/text.h"

namespace gramme::protocol {

namespace {

struct Row {
  std::string file;
  CallRule rule;
};

AtLoad<std::unordered_map<std::string, Row>> rows;  // by qualified name

}  // namespace

void add_call_rule(const char* file_suffix, const char* qualified_name, CallRule rule) {
  rows.fill()[qualified_name] = {file_suffix, rule};
}

CallRule find_call_rule(PyCodeObject* code) {
  auto found = rows->find(utf8_of(code->co_qualname));
  const bool is_file = found != rows->end() && utf8_of(code->co_filename).ends_with(found->second.file);
  return is_file ? found->second.rule : nullptr;
}

}  // namespace gramme::protocol
