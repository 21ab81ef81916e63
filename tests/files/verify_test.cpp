#include "base/json.h"
#include "files/made_checkpoints.h"
#include "files/manifest.h"

namespace ebb::files {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class VerifyTest : public FolderTest {
 protected:
  void SetUp() override {
    save(files, root, 10, "x");
    save(files, root, 20, "y");
  }

  void put(const fs::path& path, const std::string& text) {
    files.create(path)->write(0, std::as_bytes(std::span(text)));
  }

  fs::path checkpoint = root / "step-00000020";
};

TEST_F(VerifyTest, FindsEveryFlippedByte) {
  verify(files, checkpoint);
  verify(files, checkpoint / "");
  for (const char* name : {"weights.safetensors", "run.json", "notes.txt"}) {
    const std::string whole = io::read_text(files, checkpoint / name, 10000);
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 20) {
      std::string text = whole;
      text[at] = static_cast<char>(text[at] ^ 4);
      put(checkpoint / name, text);
      EXPECT_THAT(error_of([&] { verify(files, checkpoint); }),
                  AllOf(HasSubstr((checkpoint / name).string()), HasSubstr("expected the XXH3"),
                        HasSubstr("Resume from an older checkpoint"),
                        HasSubstr((root / "step-00000010").string())))
          << "byte " << at;
    }
    put(checkpoint / name, whole);
  }
  verify(files, checkpoint);
}

TEST_F(VerifyTest, FindsCutAndMissingFiles) {
  put(checkpoint / "run.json", "{}");
  EXPECT_THAT(error_of([&] { verify(files, checkpoint); }),
              AllOf(HasSubstr("run.json' is damaged"), HasSubstr("found 2")));
  files.remove_all(checkpoint / "run.json");
  EXPECT_THAT(error_of([&] { verify(files, checkpoint); }), HasSubstr("found none"));
  files.remove_all(checkpoint / "manifest.json");
  EXPECT_THAT(error_of([&] { verify(files, checkpoint); }), HasSubstr("expected a manifest"));
}

TEST_F(VerifyTest, SaysWhereThereIsNoOlderOne) {
  put(root / "step-00000010" / "run.json", "{}");
  EXPECT_THAT(error_of([&] { verify(files, root / "step-00000010"); }),
              HasSubstr("no older checkpoint"));
}

TEST_F(VerifyTest, RefusesAManifestOfAnotherStep) {
  fs::rename(checkpoint, root / "step-00000030");
  EXPECT_THAT(error_of([&] { verify(files, root / "step-00000030"); }),
              HasSubstr("expected step 30, found step 20"));
  fs::rename(root / "step-00000030", root / "best");
  verify(files, root / "best");
}

TEST_F(VerifyTest, ACutManifestIsAnError) {
  const std::string whole = io::read_text(files, checkpoint / "manifest.json", 10000);
  for (std::size_t bytes = 0; bytes + 1 < whole.size(); bytes += 7) {
    files.remove_all(checkpoint / "manifest.json");
    put(checkpoint / "manifest.json", whole.substr(0, bytes));
    EXPECT_THROW(verify(files, checkpoint), FormatError) << "cut to " << bytes;
  }
}

TEST_F(VerifyTest, TheManifestsOwnDigestCoversAllItSays) {
  const Manifest whole = read_manifest(files, checkpoint);
  const std::function<void(Json&)> changes[] = {
      [](Json& json) { json["step"] = 21; },
      [](Json& json) { json["files"].erase(0); },
      [](Json& json) { json["files"].erase(2); },
      [](Json& json) { std::swap(json["files"][0]["name"], json["files"][1]["name"]); },
      [](Json& json) { json["files"][1]["name"] = "other.json"; },
      [](Json& json) { json["files"][1]["bytes"] = 1; },
      [](Json& json) { json["files"][1]["xxh3"] = json["files"][0]["xxh3"]; },
      [](Json& json) { json["files"].push_back(json["files"][0]), json["files"][3]["name"] = "a"; },
  };
  const Json json = Json::parse(format_manifest(whole));
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    Json changed = json;
    changes[i](changed);
    put(checkpoint / "manifest.json", changed.dump());
    EXPECT_THAT(error_of([&] { verify(files, checkpoint); }),
                AllOf(HasSubstr("it was changed after it was saved"), HasSubstr("manifest.json")))
        << "change " << i;
  }
  // Written in another way, it says the same.
  put(checkpoint / "manifest.json", json.dump());
  verify(files, checkpoint);
}

TEST_F(VerifyTest, OfVersionOneIsComparedAsFarAsItSays) {
  Manifest manifest = read_manifest(files, checkpoint);
  manifest.version = 1;
  put(checkpoint / "manifest.json", format_manifest(manifest));
  EXPECT_FALSE(Json::parse(format_manifest(manifest)).contains("xxh3"));
  EXPECT_EQ(read_manifest(files, checkpoint).version, 1);
  verify(files, checkpoint);
  put(checkpoint / "run.json", "{}");
  EXPECT_THAT(error_of([&] { verify(files, checkpoint); }), HasSubstr("run.json' is damaged"));
}

TEST_F(VerifyTest, WhatIsRequiredMustBeListed) {
  const auto verify_with = [&](std::string_view name) {
    verify(files, checkpoint, {.required = {name}, .skip = {}, .advice = {}});
  };
  Manifest manifest = read_manifest(files, checkpoint);
  verify_with("run.json");
  std::erase_if(manifest.files, [](const ManifestFile& file) { return file.name == "run.json"; });
  for (const int version : {1, 2}) {
    manifest.version = version;
    put(checkpoint / "manifest.json", format_manifest(manifest));
    verify_with("weights.safetensors");
    EXPECT_THAT(error_of([&] { verify_with("run.json"); }),
                AllOf(HasSubstr("manifest.json' is damaged: expected an entry for run.json"),
                      HasSubstr((root / "step-00000010").string())));
  }
}

TEST_F(VerifyTest, RefusesMalformedManifests) {
  const std::string head = R"({"format":"ebb-checkpoint","version":1,"step":20,"files":)";
  const std::string file = R"({"name":"a","bytes":0,"xxh3":"0123456789abcdef0123456789abcdef"})";
  const std::pair<std::string, const char*> malformed[] = {
      {"", "expected JSON"},
      {"\xff", "expected JSON"},
      {std::string(100000, '['), "nested deeper than"},
      {"[]", "expected an object"},
      {"{}", "expected 'format'"},
      {R"({"format":"other"})", "ebb-checkpoint"},
      {R"({"format":"ebb-checkpoint","version":0})", "version 0"},
      {R"({"format":"ebb-checkpoint","version":3})", "version 3"},
      {R"({"format":"ebb-checkpoint","version":2,"step":20,"files":[]})", "expected 'xxh3'"},
      {R"({"format":"ebb-checkpoint","version":2,"step":20,"files":[],"xxh3":1})", "'xxh3' to be"},
      {R"({"format":"ebb-checkpoint","version":2,"step":20,"files":[],"xxh3":"0"})", "a digest"},
      {R"({"format":"ebb-checkpoint","version":2,"step":20,"files":[],)"
       R"("xxh3":"0123456789abcdef0123456789abcdef"})",
       "it was changed after it was saved"},
      {R"({"format":"ebb-checkpoint","version":1,"step":-1})", "'step'"},
      {R"({"format":"ebb-checkpoint","version":1,"step":1e99})", "'step'"},
      {R"({"format":"ebb-checkpoint","version":1,"step":18446744073709551615})", "'step'"},
      {head + "{}}", "a list of files"},
      {head + "[1]}", "an object for each file"},
      {head + R"([{"name":1,"bytes":0,"xxh3":""}]})", "'name' to be a text"},
      {head + R"([{"name":"../../etc/passwd","bytes":0,"xxh3":""}]})", "a plain file name"},
      {head + R"([{"name":"a","bytes":-1,"xxh3":""}]})", "'bytes'"},
      {head + R"([{"name":"a","bytes":0}]})", "'xxh3'"},
      {head + R"([{"name":"a","bytes":0,"xxh3":"\u001b[2J"}]})", "a digest"},
      {head + "[" + file + "," + file + "]}", "twice"},
  };
  for (const auto& [text, error] : malformed) {
    put(checkpoint / "manifest.json", text);
    EXPECT_THAT(error_of([&] { read_manifest(files, checkpoint); }),
                AllOf(HasSubstr(error), HasSubstr("manifest.json"), HasSubstr("--resume")))
        << text.substr(0, 100);
  }
}

}  // namespace
}  // namespace ebb::files
