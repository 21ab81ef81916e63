// What is behind a Model, for the other objects of the API.
#pragma once

#include <memory>
#include <optional>

#include "ebb/model.h"
#include "engine/open_model.h"
#include "files/model/generation_config.h"

namespace ebb::api {

struct OpenedModel {
  std::shared_ptr<const engine::OpenModel> model;
  ModelOptions options;

  const files::ModelSource& source() const { return model->source; }
  const files::ModelTokenizer& found_tokenizer() const { return model->tokenizer; }
  const text::Tokenizer& tokenizer() const { return model->tokenizer.tokenizer(); }
  // As the folder has it now. Throws FormatError.
  std::optional<files::GenerationConfig> generation_config() const;
};

}  // namespace ebb::api
