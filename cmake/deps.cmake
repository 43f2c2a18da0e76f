# Libraries. The system's packages come first; what the release lacks is put in .deps/prefix by './dev deps'.
#   PkgConfig::UV CURL SQLITE YAML ZSTD NCURSES CMOCKA    from the system
#   dep::yyjson dep::llhttp                  the system's, else the static ones of .deps
#   dep::{yyjson,llhttp,uv,zstd}_static           the archives; a static program gets them by itself
set(ENV{PKG_CONFIG_PATH} "$ENV{PKG_CONFIG_PATH}:${CMAKE_SOURCE_DIR}/.deps/prefix/lib/pkgconfig")
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
set(SANDPOOL_DEPS_PREFIX ${CMAKE_SOURCE_DIR}/.deps/prefix)

function(need_package var module)
  pkg_check_modules(${var} QUIET IMPORTED_TARGET GLOBAL ${module})
  if(NOT ${var}_FOUND)
    message(FATAL_ERROR "${module} was not found: run ./dev deps")
  endif()
endfunction()

need_package(UV "libuv>=1.44")
need_package(CURL "libcurl>=7.88")
need_package(OPENSSL "openssl>=3.0")
need_package(SQLITE "sqlite3>=3.40")
need_package(YAML yaml-0.1)
need_package(ZSTD "libzstd>=1.5")
need_package(NCURSES ncursesw)
need_package(YYJSON "yyjson>=0.10")
need_package(LLHTTP "libllhttp>=9")
if(SANDPOOL_TESTS)
  need_package(CMOCKA "cmocka>=1.1.5")
endif()

# need_archive(<name> <header> <file>...) defines dep::<name>_static from the first archive found.
function(need_archive name header)
  find_library(SANDPOOL_${name}_ARCHIVE NAMES ${ARGN} HINTS ${SANDPOOL_DEPS_PREFIX}/lib)
  find_path(SANDPOOL_${name}_INCLUDE ${header} HINTS ${SANDPOOL_DEPS_PREFIX}/include)
  mark_as_advanced(SANDPOOL_${name}_ARCHIVE SANDPOOL_${name}_INCLUDE)
  if(NOT SANDPOOL_${name}_ARCHIVE OR NOT SANDPOOL_${name}_INCLUDE)
    message(FATAL_ERROR "no static library of ${name}: run ./dev deps")
  endif()
  add_library(dep::${name}_static STATIC IMPORTED GLOBAL)
  set_target_properties(dep::${name}_static PROPERTIES
    IMPORTED_LOCATION ${SANDPOOL_${name}_ARCHIVE}
    INTERFACE_INCLUDE_DIRECTORIES ${SANDPOOL_${name}_INCLUDE}
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS}")
endfunction()

need_archive(yyjson yyjson.h libyyjson.a)
need_archive(llhttp llhttp.h libllhttp.a)
need_archive(uv uv.h libuv_a.a libuv.a)
need_archive(zstd zstd.h libzstd.a)

# The same library target serves both kinds of program: one that is linked statically (it carries the
# property SANDPOOL_STATIC) gets the archive, every other the system's shared object. libcurl has no
# archive worth linking; a static program must not use it.
function(choose_archive module archive)
  get_target_property(shared PkgConfig::${module} INTERFACE_LINK_LIBRARIES)
  set(is_static $<BOOL:$<TARGET_PROPERTY:SANDPOOL_STATIC>>)
  set_property(TARGET PkgConfig::${module} PROPERTY INTERFACE_LINK_LIBRARIES
    "$<${is_static}:${archive}>" "$<$<NOT:${is_static}>:${shared}>")
endfunction()

choose_archive(YYJSON dep::yyjson_static)
choose_archive(LLHTTP dep::llhttp_static)
choose_archive(UV dep::uv_static)
choose_archive(ZSTD dep::zstd_static)
choose_archive(CURL "")

add_library(dep::yyjson ALIAS PkgConfig::YYJSON)
add_library(dep::llhttp ALIAS PkgConfig::LLHTTP)
