// What the families with rotary positions share in config.json.
#pragma once

#include "model/config.h"
#include "model/families/fields.h"

namespace ebb::model {

// The base and the scaling of rotary positions, from `rope_parameters` or from the older
// `rope_theta` and `rope_scaling`.
void read_rope(const Fields&, Config&);
// All three, so that older readers find theirs.
void write_rope(const Config&, Json&);

// `attention_bias`: on q, k, v and on the way back.
void read_attention_bias(const Fields&, Config&);

// `sliding_window`: at least 1.
std::int64_t read_window(const Fields&, std::int64_t otherwise);
// `use_sliding_window`, `sliding_window`, `max_window_layers` and `layer_types`.
void read_layer_windows(const Fields&, Config&);
void write_layer_windows(const Config&, Json&);

}  // namespace ebb::model
