/* top_screen.c - the terminal of `sandpool top`, by ncurses. */
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/run.h"
#include "cli/top.h"

enum { CONTROL_C = 3, CONTROL_H = 8, CONTROL_L = 12, ESCAPE = 27, DELETE = 127, ESCAPE_MS = 50 };

static SCREEN *screen;
static bool is_utf8;

static void set_up(void)
{
    static const short pairs[][2] = {{TOP_GOOD, COLOR_GREEN},
                                     {TOP_WARN, COLOR_YELLOW},
                                     {TOP_BAD, COLOR_RED},
                                     {TOP_HEAD, COLOR_CYAN}};

    /* these cannot fail on a screen that was opened, or do not matter */
    (void) cbreak();
    (void) noecho();
    (void) nonl();
    (void) nodelay(stdscr, TRUE);
    (void) keypad(stdscr, TRUE);
    (void) leaveok(stdscr, TRUE);
    (void) curs_set(0);
    (void) set_escdelay(ESCAPE_MS);
    if (has_colors() && start_color() == OK && use_default_colors() == OK) {
        for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
            (void) init_pair(pairs[i][0], pairs[i][1], -1);
    }
}

bool top_screen_open(struct err *err)
{
    const char *name = getenv("TERM");

    (void) setlocale(LC_CTYPE, "");
    is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    screen = newterm(NULL, stdout, stdin); /* unlike initscr() it does not end the program */
    if (screen == NULL) {
        err_set(err, SP_IO, "the terminal ($TERM is '%.40s') cannot show a screen; use --once",
                name != NULL ? name : "");
        return false;
    }
    (void) set_term(screen);
    set_up();
    return true;
}

void top_screen_close(void)
{
    if (screen == NULL)
        return;
    (void) endwin();
    delscreen(screen);
    screen = NULL;
}

void top_screen_leave(void)
{
    (void) endwin();
}

void top_screen_return(void)
{
    (void) flushinp(); /* what was typed was for the other */
    (void) clearok(stdscr, TRUE);
    (void) refresh();
}

void top_screen_size(unsigned *ret_cols, unsigned *ret_rows)
{
    unsigned cols;
    unsigned rows;

    run_terminal_size(&cols, &rows);
    cols = MIN_OF(cols, (unsigned) TOP_COLS_MAX);
    rows = MIN_OF(rows, (unsigned) TOP_ROWS_MAX);
    if ((int) cols != COLS || (int) rows != LINES)
        (void) resizeterm((int) rows, (int) cols);
    *ret_cols = cols;
    *ret_rows = rows;
}

static attr_t attr_of(unsigned attr, short *ret_pair)
{
    static const attr_t attrs[TOP_ATTR_COUNT] = {
        [TOP_PLAIN] = A_NORMAL, [TOP_STRONG] = A_BOLD,    [TOP_FAINT] = A_DIM,
        [TOP_HEAD] = A_BOLD,    [TOP_GOOD] = A_NORMAL,    [TOP_WARN] = A_BOLD,
        [TOP_BAD] = A_BOLD,     [TOP_CHOSEN] = A_REVERSE,
    };
    bool has_pair = attr == TOP_GOOD || attr == TOP_WARN || attr == TOP_BAD || attr == TOP_HEAD;

    *ret_pair = (short) (has_pair && has_colors() ? attr : 0);
    return attrs[attr];
}

void top_screen_show(const struct top_grid *g)
{
    (void) erase();
    for (unsigned row = 0; row < g->rows; row++) {
        for (unsigned col = 0; col < g->cols; col++) {
            struct top_cell cell = g->cells[(size_t) row * g->cols + col];
            bool is_plain = cell.c < 0x80 || is_utf8;
            wchar_t text[2] = {is_plain ? (wchar_t) cell.c : L'?', L'\0'};
            cchar_t c;
            short pair;
            attr_t attr = attr_of(cell.attr, &pair);

            if (cell.c == 0 || (cell.c == ' ' && attr == A_NORMAL))
                continue;
            if (setcchar(&c, text, attr, pair, NULL) == OK)
                (void) mvadd_wch((int) row, (int) col,
                                 &c); /* the last cell of all reports an error */
        }
    }
    (void) refresh();
}

static unsigned special(wint_t c)
{
    static const struct {
        wint_t c;
        unsigned key;
    } keys[] = {{KEY_UP, TOP_KEY_UP},         {KEY_DOWN, TOP_KEY_DOWN},
                {KEY_PPAGE, TOP_KEY_PAGE_UP}, {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
                {KEY_HOME, TOP_KEY_HOME},     {KEY_END, TOP_KEY_END},
                {KEY_ENTER, TOP_KEY_ENTER},   {KEY_BACKSPACE, TOP_KEY_BACKSPACE}};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (keys[i].c == c)
            return keys[i].key;
    }
    return 0;
}

static unsigned plain(wint_t c)
{
    switch (c) {
    case '\r':
    case '\n':
        return TOP_KEY_ENTER;
    case '\t':
        return TOP_KEY_TAB;
    case ESCAPE:
        return TOP_KEY_ESCAPE;
    case CONTROL_H:
    case DELETE:
        return TOP_KEY_BACKSPACE;
    case CONTROL_L:
        (void) clearok(stdscr, TRUE);
        return 'r';
    default:
        return (unsigned) c;
    }
}

/* Whether reading would only find the end. */
static bool has_gone(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

bool top_screen_key(unsigned *ret)
{
    wint_t c;
    int r = get_wch(&c);

    *ret = 0;
    if (r == ERR)
        return !has_gone();
    *ret = r == KEY_CODE_YES ? special(c) : plain(c);
    return true;
}
