# The public API as a shared library for the Python package, which loads it when it is first used:
# functions of C linkage alone (include/ebb/api_c.h).
add_library(ebb_engine SHARED src/api/c_interface.cpp)
target_include_directories(ebb_engine PRIVATE src)
target_link_libraries(ebb_engine PRIVATE ebb fmt::fmt nlohmann_json::nlohmann_json)
# What it needs looks beside it for what that needs, which takes the older of the two dynamic tags.
target_link_options(ebb_engine PRIVATE LINKER:--no-undefined LINKER:--disable-new-dtags
  LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/ebb_engine.map)
set_target_properties(ebb_engine PROPERTIES INSTALL_RPATH "$ORIGIN"
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/ebb_engine.map)
if(EBB_HAS_CUDA)
  set_target_properties(ebb_engine PROPERTIES LINKER_LANGUAGE CXX CUDA_RUNTIME_LIBRARY None)
endif()
add_dependencies(ebb_python ebb_engine)

# CUDA's libraries are not among what goes with it: they are bigger than everything else together.
install(TARGETS ebb_engine LIBRARY DESTINATION ebb COMPONENT python)
install(CODE [[
  file(GET_RUNTIME_DEPENDENCIES LIBRARIES "${CMAKE_INSTALL_PREFIX}/ebb/libebb_engine.so"
    RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s|cuda|cudart|cublas|cublasLt|cudnn.*|nvrtc.*)\\.so")
  foreach(library IN LISTS found)
    get_filename_component(name ${library} NAME)
    if(NOT EXISTS "${CMAKE_INSTALL_PREFIX}/ebb/${name}")
      file(COPY_FILE ${library} "${CMAKE_INSTALL_PREFIX}/ebb/${name}")
    endif()
  endforeach()
  if(missing)
    message(WARNING "libebb_engine.so needs ${missing}, which are not found")
  endif()
]] COMPONENT python)
install_notices(libdnnl-dev libdnnl2 ocl-icd-libopencl1 libgomp1 libpcre2-dev libutf8proc-dev liburing-dev)
