// The choice of a matrix product's algorithm by timing, for backends whose library has several that
// give the same product in other orders of sums. What was chosen is part of the numerics: it is
// made once, kept, and given back to every later run that should have the same bits.
#pragma once

#include <map>
#include <string>

#include "kernels/bound_ops.h"
#include "kernels/model_ops.h"

namespace ebb::kernels {

// An algorithm's text by a product's: shapes, strides, types and alignments.
using GemmChoices = std::map<std::string, std::string>;

class GemmTuner {
 public:
  virtual ~GemmTuner() = default;

  // The device, library and settings that choices hold for.
  virtual std::string conditions() const = 0;
  // How choices are found: what another method found still holds, but is not what this one would.
  virtual std::string method() const = 0;

  // Choices as choices() gave them. What does not fit the library at hand is left out.
  virtual void load_choices(const GemmChoices& choices) = 0;
  // Those that products of this process use.
  virtual GemmChoices choices() const = 0;

  // Whether the product has a choice, or none to make. Of addresses only the alignment counts, and
  // which are null or equal.
  virtual bool chosen(const Product& product) = 0;
  // Bytes on the device that a search wants.
  virtual Bytes search_bytes(const Product& product) const = 0;
  // Times what the library offers on the context's stream, in its scratch of search_bytes(), and
  // keeps the fastest. Blocks.
  virtual void search(const Product& product, const ExecutionContext& context) = 0;
};

}  // namespace ebb::kernels
