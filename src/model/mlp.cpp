// A block's MLP, in tiles of tokens: what is widest in a block exists for one of them only, where
// nobody has memory to save it.
#include <algorithm>

#include "kernels/views.h"
#include "model/decoder.h"

namespace ebb::model {

using kernels::ConstView;
using kernels::View;

namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A tile's rows of what is there for all tokens, or for one tile.
struct Tile {
  std::int64_t tokens = 0;  // in all
  std::int64_t first = 0;
  std::int64_t count = 0;
  template <class V>
  V operator()(V view) const {
    return rows_of(view, view.rows == tokens ? first : 0, count);
  }
};

}  // namespace

std::int64_t Decoder::tile_of(std::int64_t tokens) const {
  // Sixteen thousand tokens: products are at full speed, and the fp32 sums of weight gradients are
  // read and written seldom beside them. Even parts, along the tiles of products.
  const std::int64_t most = shape_.largest_tile;
  if (tokens <= 2 * most) return tokens;
  const std::int64_t grain = std::max<std::int64_t>(1, most / 128);
  return divide_up(divide_up(tokens, divide_up(tokens, most)), grain) * grain;
}

std::int64_t Decoder::mlp_tiles() const { return divide_up(shape_.tokens(), mlp_tile()); }

Decoder::SavedMlp Decoder::carve_mlp(Carver* carver, Carver& work, std::int64_t tokens) const {
  Carver& from = carver != nullptr ? *carver : work;
  return {.stats = from.take_as<float>(norm_.stats(tokens)),
          .up = carve(from, carver != nullptr ? tokens : tile_of(tokens), config_.up_width())};
}

void Decoder::mlp_product(ModelOps& ops, const BlockWeights& weights, View product, View up,
                          ConstView normed, bool at_once) const {
  if (at_once && places_.up.size() == 1 && weights.layout == nullptr) {
    ops.product_activate(product, linear_product(weights.data, places_.up.front(), up, normed),
                         config_.activation);
    return;
  }
  linears(ops, weights, places_.up, up, normed);
  if (product.data != nullptr) ops.activate(product, up, config_.activation);
}

void Decoder::mlp(ModelOps& ops, ConstView middle, const ForwardMemory& memory,
                  const CheapSaved& cheap_saved, Carver& work) const {
  const std::int64_t tokens = middle.rows, most = tile_of(tokens);
  const SavedMlp own = carve_mlp(memory.mlp, work, tokens);
  const View normed =
      memory.cheap_saved ? cheap_saved.mlp_normed : carve(work, most, config_.hidden);
  const View product =
      memory.cheap_saved ? cheap_saved.product : carve(work, most, config_.intermediate);
  const View output = activation(memory.output, tokens, config_.hidden);
  for (std::int64_t first = 0; first < tokens; first += most) {
    const Tile tile{tokens, first, std::min(most, tokens - first)};
    norm(ops, memory.weights, places_.post_norm, tile(normed), own.stats + norm_.stats(first),
         false, tile(middle));
    // Where nothing is saved these are few tokens: their product reads its weights once, and a
    // library has a better one for that.
    mlp_product(ops, memory.weights, tile(product), tile(own.up), tile(normed),
                memory.saved != nullptr);
    linear(ops, memory.weights, places_.down, tile(output), tile(product), tile(middle).data);
  }
}

void Decoder::mlp_backward(ModelOps& ops, const BackwardMemory& memory, const Saved& saved,
                           const CheapSaved& cheap_saved, std::byte* shared, Carver& work) const {
  const std::int64_t tokens = shape_.tokens(), most = mlp_tile();
  const View dx = activation(memory.residual, tokens, config_.hidden);
  const View dnormed = activation(shared, tokens, config_.hidden);
  const SavedMlp own = carve_mlp(memory.mlp, work, tokens);
  const View dproduct = carve(work, most, config_.intermediate);
  const View normed =
      memory.cheap_saved ? cheap_saved.mlp_normed : carve(work, most, config_.hidden);
  const View no_product{nullptr, dtype_, most, config_.intermediate, config_.intermediate};
  std::vector<TileSum> sums;  // of up's parts and of down
  const bool several = mlp_tiles() > 1;
  if (several) {
    for (const LinearPlace& place : places_.up) sums.push_back(carve_tile_sum(memory, place, work));
    sums.push_back(carve_tile_sum(memory, places_.down, work));
  }
  const auto weight_gradient_of = [&](const LinearPlace& place, const LinearGradient& g,
                                      std::size_t sum, std::int64_t first) {
    if (several) return add_tile(ops, place, g, sums[sum], first / most);
    weight_gradient(ops, memory, place, g);
  };

  for (std::int64_t first = 0; first < tokens; first += most) {
    const Tile tile{tokens, first, std::min(most, tokens - first)};
    const View up = tile(own.up), input = tile(normed);
    if (memory.mlp == nullptr || memory.cheap_saved == nullptr) {
      norm(ops, memory.weights, places_.post_norm, input, own.stats + norm_.stats(first),
           memory.mlp != nullptr, tile(saved.middle));
    }
    if (memory.mlp == nullptr) mlp_product(ops, memory.weights, tile(no_product), up, input, true);
    // The product is made again in one pass with the gradient of what it is made of, in the memory
    // of its own gradient. That gradient takes the place of gate and up.
    const View dup = up;
    const View product = memory.cheap_saved ? tile(cheap_saved.product) : tile(dproduct);
    ops.product_activate_backward(
        dup, memory.cheap_saved ? View{} : product,
        input_gradient(memory, places_.down, {.dy = tile(dx), .dx = tile(dproduct)}), up,
        config_.activation);
    weight_gradient_of(places_.down, {.dy = tile(dx), .x = product}, places_.up.size(), first);
    std::int64_t column = 0;
    for (std::size_t i = 0; i < places_.up.size(); ++i) {
      const LinearPlace& place = places_.up[i];
      const LinearGradient g{.dy = columns(dup, column, place.out),
                             .x = input,
                             .dx = tile(dnormed),
                             .add = column > 0};
      weight_gradient_of(place, g, i, first);
      ops.matmul(input_gradient(memory, place, g));
      column += place.out;
    }
  }
  if (several) {
    for (std::size_t i = 0; i < places_.up.size(); ++i) {
      finish_tiles(ops, memory, places_.up[i], sums[i]);
    }
    finish_tiles(ops, memory, places_.down, sums.back());
  }
  norm_backward(ops, memory, places_.post_norm, dnormed, saved.middle, own.stats);
}

Decoder::TileSum Decoder::carve_tile_sum(const BackwardMemory& memory, const LinearPlace& place,
                                         Carver& work) const {
  TileSum sum{.weight = weight_gradient_at(memory.gradient, place), .bias = {}};
  if (gradient_type_ != DType::f32) {
    sum.weight.type = DType::f32;
    sum.weight.data = work.take_as<float>(sum.weight.rows * sum.weight.cols);
  }
  if (place.bias != kNowhere) {
    sum.bias = {work.take_as<float>(mlp_tiles() * place.out), DType::f32, mlp_tiles(), place.out,
                place.out};
  }
  return sum;
}

void Decoder::add_tile(ModelOps& ops, const LinearPlace& place, const LinearGradient& g,
                       const TileSum& sum, std::int64_t tile) const {
  const bool in_by_out = config_.weights_in_by_out;
  ops.matmul(sum.weight, in_by_out ? g.x : g.dy, in_by_out ? g.dy : g.x,
             {.transpose_a = true, .addend = tile > 0 ? sum.weight.data : nullptr});
  if (place.bias != kNowhere) {
    ops.column_sums(rows_of(sum.bias, tile, 1).data, DType::f32, g.dy);
  }
}

void Decoder::finish_tiles(ModelOps& ops, const BackwardMemory& memory, const LinearPlace& place,
                           const TileSum& sum) const {
  if (gradient_type_ != DType::f32) {
    ops.convert(weight_gradient_at(memory.gradient, place), sum.weight);
  }
  if (place.bias != kNowhere) {
    ops.column_sums(gradient_at(memory.gradient, place.bias), gradient_type_, sum.bias);
  }
}

}  // namespace ebb::model
