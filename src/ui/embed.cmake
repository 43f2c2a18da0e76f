# cmake -P: a C file (OUT) with the bytes of FILES and VENDORED, each also compressed, and with the hash of each. Copies are
# made in DIR. Whether there is a terminal is a module of the page (build.js).
file(MAKE_DIRECTORY ${DIR})
set(paths ${FILES})
set(has_terminal false)
foreach(path IN LISTS VENDORED)
  get_filename_component(name ${path} NAME)
  if(name STREQUAL "LICENSE")
    set(name xterm.LICENSE.txt)
  elseif(name STREQUAL "xterm.mjs")
    set(name xterm.js)
    set(has_terminal true)
  endif()
  file(COPY_FILE ${path} ${DIR}/${name} ONLY_IF_DIFFERENT)
  list(APPEND paths ${DIR}/${name})
endforeach()
file(WRITE ${DIR}/build.js "/* Made when the daemon was built. */\nexport const hasTerminal = ${has_terminal};\n")
list(APPEND paths ${DIR}/build.js)

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_txt "text/plain; charset=utf-8")
set(type_svg "image/svg+xml")

set(bytes "")
set(rows "")
set(n 0)
foreach(path IN LISTS paths)
  get_filename_component(name ${path} NAME)
  string(REGEX REPLACE ".*\\." "" ending ${name})
  file(SHA256 ${path} hash)
  string(SUBSTRING ${hash} 0 16 hash)
  string(APPEND bytes "UI_BYTES(plain_${n}, \"${path}\")\n")
  set(zipped "NULL, NULL")
  if(GZIP)
    execute_process(COMMAND ${GZIP} -9nc ${path} OUTPUT_FILE ${DIR}/${n}.gz COMMAND_ERROR_IS_FATAL ANY)
    string(APPEND bytes "UI_BYTES(zipped_${n}, \"${DIR}/${n}.gz\")\n")
    set(zipped "zipped_${n}, zipped_${n}_end")
  endif()
  string(APPEND rows "    {\"${name}\", \"${type_${ending}}\", \"W/\\\"${hash}\\\"\", plain_${n}, plain_${n}_end, ${zipped}},\n")
  math(EXPR n "${n} + 1")
endforeach()

file(WRITE ${OUT} "/* Made by src/ui/embed.cmake. */
#include \"ui/files.h\"

#include <stddef.h>

#define UI_BYTES(name, path)                                                                  \\
    __asm__(\".pushsection .rodata\\n\" #name \":\\n.incbin \\\"\" path \"\\\"\\n\" #name \"_end:\\n.byte 0\\n.popsection\\n\"); \\
    extern const char name[];                                                                 \\
    extern const char name##_end[];

${bytes}
const struct ui_file ui_files[] = {
${rows}    {NULL, NULL, NULL, NULL, NULL, NULL, NULL},
};
")
