// Turns a stream of bytes into text that can be shown at once: a token may end in the middle of a
// UTF-8 character, and a terminal should never see half of one.
#pragma once

#include <string>
#include <string_view>

namespace ebb::text {

// Invalid bytes become U+FFFD, one for each longest run that began like a character (the practice
// Unicode recommends), as soon as no further byte could make them valid. For one thread.
class Utf8Stream {
 public:
  // All characters that are complete now. At most three bytes are held back.
  std::string feed(std::string_view bytes);

  // The stream has ended: a character that was begun and not completed becomes U+FFFD. The stream
  // is as new afterwards.
  std::string finish();

 private:
  void begin(unsigned char lead, std::string& out);

  std::string pending_;  // the begun character
  int missing_ = 0;      // bytes it still needs
  // What its next byte may be: narrower than 0x80..0xbf after some leads, which is how overlong
  // forms, surrogates and what lies beyond U+10FFFF are refused at the second byte.
  unsigned char lowest_ = 0x80;
  unsigned char highest_ = 0xbf;
};

}  // namespace ebb::text
