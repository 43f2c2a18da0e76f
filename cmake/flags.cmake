# Compiler and linker flags for the whole tree. assert() is part of the program: NDEBUG is never defined.
include(CheckCCompilerFlag)
include(CheckPIESupported)

foreach(config DEBUG RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REGEX REPLACE "[-/]DNDEBUG" "" CMAKE_C_FLAGS_${config} "${CMAKE_C_FLAGS_${config}}")
endforeach()

add_compile_definitions(_GNU_SOURCE)
add_compile_options(
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wswitch-enum
  -Wformat=2 -Wundef -Wvla -Wpointer-arith -Wwrite-strings -Wimplicit-fallthrough
  -fno-common)
if(SANDPOOL_WERROR)
  add_compile_options(-Werror)
endif()
if(SANDPOOL_FAULTS)
  add_compile_definitions(SANDPOOL_FAULTS=1)
endif()

# Position independent everywhere; CMake adds -fPIE and -pie.
check_pie_supported(LANGUAGES C)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_link_options(-Wl,-z,relro,-z,now -Wl,-z,noexecstack)

set(SANDPOOL_INSTRUMENTED OFF)
if(SANDPOOL_SANITIZE OR SANDPOOL_FUZZ OR SANDPOOL_COVERAGE)
  set(SANDPOOL_INSTRUMENTED ON)
endif()

if(CMAKE_BUILD_TYPE STREQUAL "Debug" OR SANDPOOL_INSTRUMENTED)
  add_compile_options(-fno-omit-frame-pointer)
else()
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong)
  foreach(flag -fstack-clash-protection -fcf-protection)
    string(MAKE_C_IDENTIFIER "has${flag}" has)
    check_c_compiler_flag(${flag} ${has})
    if(${has})
      add_compile_options(${flag})
    endif()
  endforeach()
endif()

if(SANDPOOL_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SANDPOOL_FUZZ needs clang: use 'cmake --preset fuzz'")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
elseif(SANDPOOL_SANITIZE)
  add_compile_options(-fsanitize=${SANDPOOL_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SANDPOOL_SANITIZE})
endif()
if(SANDPOOL_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()
