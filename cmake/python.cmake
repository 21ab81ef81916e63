# What the Python package holds beside python/: the shared library, and what it needs that a machine
# without developers' packages lacks, found beside it. No file of it is a link, as wheels have none.
set_target_properties(ebb_hybrid PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS ebb_hybrid LIBRARY DESTINATION ebb COMPONENT python)
foreach(library IN ITEMS fmt::fmt hwy::hwy)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    install(FILES $<TARGET_FILE:${library}> DESTINATION ebb COMPONENT python
            RENAME $<TARGET_SONAME_FILE_NAME:${library}>)
  endif()
endforeach()
# The notices of what is in it, as Debian and Ubuntu have them.
foreach(package IN ITEMS libfmt-dev libhwy-dev nlohmann-json3-dev libxxhash-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ebb/licences COMPONENT python
          RENAME ${package} OPTIONAL)
endforeach()
