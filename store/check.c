/* check.c - whether a copy of the database is whole, by SQLite's own means. For a thread of its own: a large one takes
 * seconds. */
#include <stdio.h>
#include <string.h>

#include "store/internal.h"

/* The first row of the answer: "ok", or what is wrong. */
static int ask(sqlite3 *conn, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    const char *text = NULL;
    int r;

    if (sqlite3_prepare_v2(conn, "PRAGMA quick_check(1)", -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        text = (const char *) sqlite3_column_text(stmt, 0);
    if (text != NULL && strcmp(text, "ok") == 0)
        r = SP_OK;
    else
        r = err_set(err, SP_STORE_UNAVAILABLE, "%.200s",
                    text != NULL ? text : sqlite3_errmsg(conn));
    (void) sqlite3_finalize(stmt); /* repeats the error of the last step */
    return r;
}

/* As a URI that says that nobody writes to it: it has no log beside it. */
static void put_uri(const char *path, char *dst, size_t cap)
{
    size_t len = (size_t) snprintf(dst, cap, "file:");

    for (; *path != '\0' && len + 32 < cap; path++)
        if (strchr("%?#", *path) != NULL)
            len += (size_t) snprintf(dst + len, cap - len, "%%%02x", (unsigned char) *path);
        else
            dst[len++] = *path;
    (void) snprintf(dst + len, cap - len, "?immutable=1");
}

int store_check_copy(const char *path, struct err *err)
{
    char uri[3 * STORE_PATH_MAX + 64];
    sqlite3 *conn = NULL;
    int r;

    put_uri(path, uri, sizeof(uri));
    if (sqlite3_open_v2(uri, &conn, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI,
                        NULL) == SQLITE_OK)
        r = ask(conn, err);
    else
        r = err_set(err, SP_STORE_UNAVAILABLE, "the copy cannot be opened: %.160s",
                    conn != NULL ? sqlite3_errmsg(conn) : "out of memory");
    (void) sqlite3_close_v2(conn); /* nothing is left open in it */
    return r;
}
