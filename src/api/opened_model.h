// The contents of a Model, for the other objects of the API.
#pragma once

#include <memory>
#include <optional>

#include "ebb/model.h"
#include "engine/open_model.h"
#include "files/model/generation_config.h"

namespace ebb::api {

// Shared by all copies of a Model and never changed once made, so any thread may read it.
// References that it gives are good as long as a copy of the Model is.
struct OpenedModel {
  // Never null. Trainers share it and may outlive the Model.
  std::shared_ptr<const engine::OpenModel> model;
  ModelOptions options;  // as given to Model::open()

  const files::ModelSource& source() const { return model->source; }
  const files::ModelTokenizer& found_tokenizer() const { return model->tokenizer; }
  const text::Tokenizer& tokenizer() const { return model->tokenizer.tokenizer(); }
  // What the folder's generation_config.json says now: read anew by each call. Nothing where there
  // is no such file, as for a preset. Throws FormatError.
  std::optional<files::GenerationConfig> generation_config() const;
};

}  // namespace ebb::api
