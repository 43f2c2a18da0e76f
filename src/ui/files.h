/* files.h - the files of the page, as the build has put them into the program. */
#ifndef UI_FILES_H
#define UI_FILES_H

struct ui_file {
    const char *name; /* NULL: behind the last */
    const char *type;
    const char *etag;
    const char *plain;
    const char *plain_end;
    const char *zipped; /* NULL: there is none */
    const char *zipped_end;
};

extern const struct ui_file ui_files[];

#endif
