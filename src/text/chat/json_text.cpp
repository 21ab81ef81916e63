#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "text/chat/budget.h"
#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

class Writer {
 public:
  Writer(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  std::string finish() && { return std::move(out_); }

  void write(const Value& value) {
    budget_.spend(1);
    if (const auto* text = value.if_string())
      write_text(*text);
    else if (const auto list = value.if_list())
      write_list(list->items);
    else if (const auto* dict = value.if_dict())
      write_dict(*dict);
    else
      write_scalar(value);
    budget_.spend_text(out_, 0);
  }

 private:
  void write_scalar(const Value& value) {
    if (value.is_none())
      out_ += "null";
    else if (value.is_bool())
      out_ += value.truth() ? "true" : "false";
    else if (const double* number = value.if_float(); number && !std::isfinite(*number))
      out_ += std::isnan(*number) ? "NaN" : *number < 0 ? "-Infinity" : "Infinity";
    else if (value.is_number())
      append_text(value, out_, budget_);
    else
      throw Failure(fmt::format("object of type {} is not JSON serializable", value.type_name()));
  }

  void write_escape(std::uint32_t unit) {
    fmt::format_to(std::back_inserter(out_), "\\u{:04x}", unit);
  }

  void write_non_ascii(const std::string& text, std::size_t& at) {
    const std::size_t begin = at;
    const auto character = static_cast<std::uint32_t>(next_character(text, at));
    if (!style_.escape_non_ascii) {
      out_.append(text, begin, at - begin);
    } else if (character < 0x10000) {
      write_escape(character);
    } else {
      write_escape(0xd7c0 + (character >> 10));
      write_escape(0xdc00 + (character & 0x3ff));
    }
  }

  void write_text(const std::string& text) {
    budget_.spend_text(text.size());
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte >= 0x80) {
        write_non_ascii(text, at);
        continue;
      }
      ++at;
      switch (byte) {
        case '"': out_ += "\\\""; break;
        case '\\': out_ += "\\\\"; break;
        case '\n': out_ += "\\n"; break;
        case '\r': out_ += "\\r"; break;
        case '\t': out_ += "\\t"; break;
        case '\f': out_ += "\\f"; break;
        case '\b': out_ += "\\b"; break;
        default:
          if (byte < 0x20 || (byte == 0x7f && style_.escape_non_ascii))
            write_escape(byte);
          else
            out_ += static_cast<char>(byte);
      }
    }
    out_ += '"';
  }

  void break_line() {
    if (!style_.indent) return;
    out_ += '\n';
    budget_.spend_text(level_ * style_.indent->size());
    for (std::size_t i = 0; i < level_; ++i) out_ += *style_.indent;
  }

  void separate(bool first) {
    if (!first) out_ += style_.item_separator;
    break_line();
  }

  void write_list(const Items& items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      separate(i == 0);
      write(items[i]);
    }
    --level_;
    break_line();
    out_ += ']';
  }

  void write_key(const Value& key) {
    if (key.if_string()) {
      write_text(*key.if_string());
      return;
    }
    if (!key.is_none() && !key.is_number())
      throw Failure(fmt::format("keys of JSON must not be of type {}", key.type_name()));
    out_ += '"';
    write_scalar(key);
    out_ += '"';
  }

  void write_dict(const Dict& dict) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      budget_.spend(entries.size());
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return is_less(a->first, b->first, budget_);
      });
    }
    out_ += '{';
    ++level_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0);
      write_key(entries[i]->first);
      out_ += style_.key_separator;
      write(entries[i]->second);
    }
    --level_;
    break_line();
    out_ += '}';
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string out_;
  std::size_t level_ = 0;
};

std::string checked_text(const std::string& text) {
  if (!is_valid_utf8(text)) throw Failure("a text of the conversation is not UTF-8");
  return text;
}

Value convert(const Json& json, int level) {
  if (level > kDeepestValue)
    throw Failure(fmt::format("JSON nested deeper than {} levels", kDeepestValue));
  switch (json.type()) {
    case Json::value_t::boolean: return json.get<bool>();
    case Json::value_t::number_integer: return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > INT64_MAX) throw Failure("an integer does not fit 64 bits");
      return json.get<std::int64_t>();
    case Json::value_t::number_float: return json.get<double>();
    case Json::value_t::string: return checked_text(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      Items items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(convert(item, level + 1));
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      Entries entries;
      entries.reserve(json.size());
      for (const auto& [key, value] : json.items())
        entries.emplace_back(checked_text(key), convert(value, level + 1));
      return Value::dict(std::move(entries));
    }
    default: return {};
  }
}

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer writer(style, budget);
  writer.write(value);
  return std::move(writer).finish();
}

Value from_json(const Json& json) { return convert(json, 1); }

}  // namespace ebb::text::jinja
