# Writes the source that says which commit is built, each time something is; the file changes only
# where the commit does, so nothing is compiled for nothing.
cmake_minimum_required(VERSION 3.21)
set(commit "unknown")
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 --exclude=*
                  WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE described RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(commit "${described}")
  endif()
endif()
file(CONFIGURE OUTPUT ${FILE} @ONLY CONTENT
     "#include \"cli/commit.h\"\n\nnamespace ebb::cli {\n\nconst char* const kBuildCommit = \"@commit@\";\n\n}  // namespace ebb::cli\n")
