# The four kinds of target. Every directory uses these and nothing else, so flags and places stay the same.
#
#   sandpool_library(sp_x SOURCES a.c b.c DEPS sp_base PkgConfig::UV)
#       sp_* dependencies are passed on to users of the library, third-party ones are linked but not shown.
#       PUBLIC_DEPS shows them too (for a header that must include a third-party one).
#   sandpool_program(sandpoold SOURCES main.c LIBS sp_daemon [STATIC])
#       lands at the top of the build directory. STATIC needs nothing at run time.
#   sandpool_test(test_x SOURCES test_x.c LIBS sp_x [TIMEOUT 180] [LABELS unit] [ARGS ...] [IN native | sanitized])
#       a cmocka program registered with ctest; `./dev test` runs it in both of its builds, or in the one that IN names
#       (tests/CMakeLists.txt). Tests find programs and files through the environment: SANDPOOL_BIN_DIR (build
#       directory) and SANDPOOL_SOURCE_DIR.
#   sandpool_fuzz(fuzz_x SOURCES fuzz_x.c LIBS sp_x CORPUS corpus/x)
#       libFuzzer program in the fuzz preset; elsewhere a test that replays the corpus.

set(SANDPOOL_TEST_ENV
  SANDPOOL_BIN_DIR=${CMAKE_BINARY_DIR}
  SANDPOOL_SOURCE_DIR=${CMAKE_SOURCE_DIR}
  ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  UBSAN_OPTIONS=print_stacktrace=1
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1)

function(sandpool_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;PUBLIC_DEPS")
  add_library(${name} STATIC ${arg_SOURCES} ${arg_UNPARSED_ARGUMENTS})
  foreach(dep IN LISTS arg_DEPS)
    if(dep MATCHES "^sp_")
      target_link_libraries(${name} PUBLIC ${dep})
    else()
      target_link_libraries(${name} PRIVATE ${dep})
    endif()
  endforeach()
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC_DEPS})
endfunction()

function(sandpool_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STATIC" "" "SOURCES;LIBS")
  add_executable(${name} ${arg_SOURCES} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  # Sanitizers need the dynamic loader, so an instrumented build links the program normally.
  if(arg_STATIC AND NOT SANDPOOL_INSTRUMENTED)
    set_property(TARGET ${name} PROPERTY SANDPOOL_STATIC ON)
    set_property(TARGET ${name} PROPERTY POSITION_INDEPENDENT_CODE) # else CMake's -pie undoes it
    target_compile_options(${name} PRIVATE -fPIE)
    target_link_options(${name} PRIVATE -static-pie)
  endif()
endfunction()

function(sandpool_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "IN;TIMEOUT" "SOURCES;LIBS;LABELS;ARGS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 180) # four tests for each processor, with sanitizers
  endif()
  add_executable(${name} ${arg_SOURCES} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} PkgConfig::CMOCKA)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" ENVIRONMENT "${SANDPOOL_TEST_ENV}")
  sandpool_runs(${name} "${arg_IN}")
endfunction()

function(sandpool_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS;TIMEOUT" "SOURCES;LIBS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 180) # four tests for each processor, with sanitizers
  endif()
  cmake_path(ABSOLUTE_PATH arg_CORPUS)
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(SANDPOOL_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=0 ${arg_CORPUS})
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.c)
    add_test(NAME ${name} COMMAND ${name} ${arg_CORPUS})
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${arg_TIMEOUT} LABELS fuzz ENVIRONMENT "${SANDPOOL_TEST_ENV}")
endfunction()
