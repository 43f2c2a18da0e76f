# Debian packages by CPack (./dev package): sandpool, libsandpool0 and libsandpool-dev.
set(debian ${CMAKE_CURRENT_SOURCE_DIR}/debian)
set(changelog ${CMAKE_CURRENT_BINARY_DIR}/changelog)
configure_file(${debian}/changelog.in ${changelog} @ONLY)
add_custom_command(OUTPUT ${changelog}.gz COMMAND gzip -9nkf ${changelog} DEPENDS ${changelog} VERBATIM)
add_custom_target(debian_changelog ALL DEPENDS ${changelog}.gz)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sandpool)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "pool of warm sandboxes for agents")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "sandpool maintainers <maintainers@sandpool.invalid>")
set(CPACK_SET_DESTDIR ON) # /etc is outside the prefix, which is /usr in the preset `package`
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_SOURCE_DIR}/build/packages)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME sandpool)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_DEPENDS "crun | runc, e2fsprogs, ca-certificates")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_RECOMMENDS "python3, slirp4netns | passt, nftables")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SUGGESTS "docker.io | podman, runsc, skopeo, umoci")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_CONTROL_EXTRA
  ${debian}/postinst ${debian}/prerm ${debian}/postrm ${debian}/conffiles)
set(CPACK_COMPONENT_UNSPECIFIED_DESCRIPTION "sandpoold gives agent runtimes sandboxes (isolated boxes in which an agent
runs code) over a Unix socket. Boxes are made before somebody asks for them,
by an OCI runtime on this machine, by Docker or Podman, or by a provisioner,
and are found again after a restart.")
install(FILES ${debian}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${changelog}.gz DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${debian}/sandpool.lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME sandpool)

if(NOT SANDPOOL_INSTRUMENTED)
  set(library libsandpool${PROJECT_VERSION_MAJOR})
  list(APPEND CPACK_COMPONENTS_ALL library development)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/shlibs "libsandpool ${PROJECT_VERSION_MAJOR} ${library}\n")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/shlibs ${CMAKE_CURRENT_BINARY_DIR}/triggers)
  set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "The client for programs in C: a program that is linked with it gets sandboxes
from sandpoold and runs commands in them.")
  install(FILES ${debian}/libsandpool.lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
    RENAME ${library} COMPONENT library)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libsandpool-dev)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION})")
  set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "The client for programs in C, for those who compile them: headers, the
archive, and what pkg-config reads.")
  foreach(part library=${library} development=libsandpool-dev)
    string(REPLACE "=" ";" part ${part})
    list(GET part 0 component)
    list(GET part 1 package)
    install(FILES ${debian}/copyright ${changelog}.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
  endforeach()
endif()
include(CPack)
