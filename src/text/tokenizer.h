// The text room: tokenizers, token streams over files, and the batches a training run is fed with.
// It knows nothing of models or devices; the engine asks it for batches by position and turns the
// ids of generated tokens back into text with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/units.h"

namespace ebb::text {

// Text to token ids and back. Immutable, so any thread may call it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Takes any bytes, valid UTF-8 or not. Adds nothing before or after; special tokens that are
  // written out in the text become their ids.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  // The same for text that goes on from other text: tokenizers that put a space before every text
  // put none before it.
  virtual std::vector<std::int32_t> encode_next(std::string_view text) const {
    return encode(text);
  }

  // For text that grows: where it can be cut for good. Whatever is written behind `text`, the
  // tokens of all are those of its first last_break() bytes, then encode_after_break() of the rest.
  // The last such place that is known; 0: none is.
  virtual std::size_t last_break(std::string_view text) const {
    (void)text;
    return 0;
  }
  virtual std::vector<std::int32_t> encode_after_break(std::string_view text) const {
    return encode(text);
  }

  // What the tokenizer wants before every text (a begin-of-text token), often nothing.
  virtual std::vector<std::int32_t> prefix() const { return {}; }

  // What it wants behind every text, nearly always nothing.
  virtual std::vector<std::int32_t> suffix() const { return {}; }

  // The bytes of the ids one after another; a single id may be part of a UTF-8 character only (see
  // Utf8Stream). Special tokens decode to how they are spelled, to nothing where they have no
  // spelling. Throws ConfigError for an id that is not in the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  // The same for ids that continue a text. Some tokenizers take a space off its beginning, which
  // must not happen again for each part of a text that is decoded as it comes.
  virtual std::string decode_next(std::span<const std::int32_t> ids) const { return decode(ids); }

  // Every id is at least 0 and below this.
  virtual std::int32_t vocabulary() const = 0;
  virtual std::int32_t end_of_text() const = 0;
  virtual std::string name() const = 0;

  // The id of a token as its vocabulary spells it.
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;

  // What it holds itself, and what each thread that encodes at the same time needs for it beside
  // memory that grows with the text.
  virtual Bytes memory_bytes() const { return 0; }
  virtual Bytes encoding_bytes() const { return 0; }

  // Changes when an encoding might. Part of a run's numerics key.
  virtual std::string digest() const { return name(); }

  // Whether the id is a mark for models rather than text for people: begin and end of text, the
  // roles of a chat. False for ids that are not in the vocabulary.
  virtual bool is_special(std::int32_t id) const { return id == end_of_text(); }
};

}  // namespace ebb::text
