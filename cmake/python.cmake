# What the Python package holds beside python/: shared libraries, and what they need that a machine
# without developers' packages lacks, found beside them. No file of it is a link, as wheels have none.

# install_python_library(TARGET DEPENDENCY...): what is linked statically is passed over.
function(install_python_library target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS ${target} LIBRARY DESTINATION ebb COMPONENT python)
  foreach(library IN LISTS ARGN)
    get_target_property(type ${library} TYPE)
    if(type STREQUAL "SHARED_LIBRARY")
      install(FILES $<TARGET_FILE:${library}> DESTINATION ebb COMPONENT python
              RENAME $<TARGET_SONAME_FILE_NAME:${library}>)
    endif()
  endforeach()
endfunction()

# install_notices(PACKAGE...): of what is in it, as Debian and Ubuntu have them.
function(install_notices)
  foreach(package IN LISTS ARGN)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ebb/licences COMPONENT python
            RENAME ${package} OPTIONAL)
  endforeach()
endfunction()

install_python_library(ebb_hybrid fmt::fmt hwy::hwy)
install_notices(libfmt-dev libhwy-dev nlohmann-json3-dev libxxhash-dev)
add_custom_target(ebb_python DEPENDS ebb_hybrid)
