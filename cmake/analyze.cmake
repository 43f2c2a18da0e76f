# Static analysis while compiling, for ./dev check: a finding is an error of the file that it is in, and ninja looks at
# those files only that have changed. Included after flags.cmake.
set(SANDPOOL_ANALYZE "" CACHE STRING "Static analysis: empty, 'gcc' (-fanalyzer) or 'clang-tidy'")

if(SANDPOOL_ANALYZE STREQUAL "gcc")
  # gcc 12 forgets that a list is not empty before its first is taken, and that a failed call returns no SP_OK: all of its
  # thirty findings were wrong. clang-tidy looks for the same (clang-analyzer-core.NullDereference).
  add_compile_options(-fanalyzer -Wno-analyzer-null-dereference)
elseif(SANDPOOL_ANALYZE STREQUAL "clang-tidy")
  find_program(SANDPOOL_CLANG_TIDY clang-tidy REQUIRED)
  # The hash has no meaning for the compiler: it makes the command another one when the configuration changes.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/.clang-tidy)
  file(SHA256 ${CMAKE_SOURCE_DIR}/.clang-tidy tidy_hash)
  set(CMAKE_C_CLANG_TIDY ${SANDPOOL_CLANG_TIDY} --quiet --extra-arg=-DSANDPOOL_TIDY_HASH=${tidy_hash})
elseif(SANDPOOL_ANALYZE)
  message(FATAL_ERROR "SANDPOOL_ANALYZE is '${SANDPOOL_ANALYZE}': 'gcc' or 'clang-tidy'")
endif()
