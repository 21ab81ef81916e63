include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS ebb EXPORT ebb-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ebb_hybrid LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT command)
install(TARGETS ebb_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
install(DIRECTORY include/ebb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ebb-targets NAMESPACE ebb:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ebb)
configure_package_config_file(cmake/ebb-config.cmake.in ${PROJECT_BINARY_DIR}/ebb-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ebb)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ebb-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ebb-config.cmake ${PROJECT_BINARY_DIR}/ebb-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindOneDNN.cmake ${CMAKE_CURRENT_LIST_DIR}/FindCUDNN.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindPcre2.cmake ${CMAKE_CURRENT_LIST_DIR}/FindUtf8proc.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindUring.cmake ${CMAKE_CURRENT_LIST_DIR}/FindZstd.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ebb)
