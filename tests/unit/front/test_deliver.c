/* Each way in which the delivery of an acquire can end, and which event the pool gets: nothing when the answer was
 * taken, an abandon while it waits, an undelivered once when a promised box did not reach its caller. */
#include <stdlib.h>

#include "base/mem.h"
#include "front/deed.h"
#include "front/deliver.h"
#include "tests/lib/unit.h"

/* --- models of the engine and of the server --- */

static struct {
    unsigned started;
    unsigned abandoned;
    unsigned undelivered;
    unsigned spoiled;
    uint64_t undelivered_box;
    uint64_t noted_box; /* as leased by whoever asked */
    struct engine_call *call;
    void *ctx;
    void (*on_gone)(void *ctx);
    void (*on_taken)(void *ctx, int result);
    unsigned repeatable;
    /* the dialect's */
    unsigned cancelled;
    unsigned ended;
    bool keeps; /* the box, to answer later */
    unsigned asks_again;
} seen;

void engine_call_start(struct engine *e, struct engine_call *call, struct pool_event *ev)
{
    (void) e;
    assert_int_equal(ev->kind, POOL_EV_ACQUIRE);
    seen.started++;
    seen.call = call;
}

void engine_call_abandon(struct engine *e, struct engine_call *call)
{
    (void) e;
    assert_ptr_equal(call, seen.call);
    seen.abandoned++;
}

void engine_undelivered(struct engine *e, const struct engine_call *call, struct box_id box,
                        bool is_spoiled)
{
    (void) e;
    assert_ptr_equal(call, seen.call);
    seen.undelivered++;
    seen.spoiled += is_spoiled;
    seen.undelivered_box = box.v;
}

void front_note_deed(struct engine *e, const struct http_exchange *ex, struct box_id box,
                     const char *verb)
{
    (void) e;
    assert_non_null(ex);
    assert_string_equal(verb, "acquire");
    seen.noted_box = box.v;
}

void http_set_ctx(struct http_exchange *ex, void *ctx, void (*on_gone)(void *ctx))
{
    assert_non_null(ex);
    seen.ctx = ctx;
    seen.on_gone = on_gone;
}

void http_may_repeat(struct http_exchange *ex)
{
    assert_non_null(ex);
    seen.repeatable++;
}

void http_on_taken(struct http_exchange *ex, void (*on_taken)(void *ctx, int result), void *ctx)
{
    assert_non_null(ex);
    seen.ctx = ctx;
    seen.on_taken = on_taken;
}

/* --- a dialect --- */

static struct front_delivery *made;

static void ask(struct front_delivery *d)
{
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE};

    front_ask(d, &ev);
}

static void on_reply(struct front_delivery *d, const struct pool_fx *fx)
{
    if (fx->u.reply.code == SP_SANDBOX_LOST && seen.asks_again > 0) {
        seen.asks_again--;
        ask(d);
    } else if (!seen.keeps) {
        front_answer(d);
    }
}

static void on_cancel(struct front_delivery *d)
{
    assert_ptr_equal(d, made);
    seen.cancelled++;
}

static void on_end(struct front_delivery *d)
{
    assert_ptr_equal(d, made);
    seen.ended++;
    made = NULL;
    free(d); /* sanitizers see who touches it later */
}

static void begin(bool has_caller)
{
    static const struct front_delivery_ops ops = {
        .on_reply = on_reply, .on_cancel = on_cancel, .on_end = on_end};
    static char exchange;

    seen = (typeof(seen)){0};
    made = xcalloc(1, sizeof(*made));
    front_begin(made, NULL, has_caller ? (struct http_exchange *) (void *) &exchange : NULL, &ops);
    ask(made);
    assert_int_equal(seen.repeatable, has_caller ? 1 : 0);
    assert_int_equal(seen.started, 1);
}

static void reply(int code, uint64_t box)
{
    struct pool_fx fx = {.kind = POOL_FX_REPLY, .box = {box}};

    fx.u.reply.code = code;
    seen.call->on_reply(seen.call, &fx);
    if (code == SP_OK && made != NULL && made->ex != NULL)
        assert_int_equal(seen.noted_box, box);
}

static void expect(unsigned abandoned, unsigned undelivered, unsigned spoiled)
{
    assert_int_equal(seen.ended, 1);
    assert_null(made);
    assert_int_equal(seen.abandoned, abandoned);
    assert_int_equal(seen.undelivered, undelivered);
    assert_int_equal(seen.spoiled, spoiled);
    if (undelivered > 0)
        assert_int_equal(seen.undelivered_box, 7);
}

/* --- the ends --- */

static void taken(void **state)
{
    (void) state;
    begin(true);
    reply(SP_OK, 7);
    assert_int_equal(seen.ended, 0);
    seen.on_taken(seen.ctx, SP_OK);
    expect(0, 0, 0);
}

static void not_taken(void **state)
{
    (void) state;
    begin(true);
    reply(SP_OK, 7);
    seen.on_taken(seen.ctx, SP_IO);
    expect(0, 1, 0);
}

/* A refusal that nobody reads promises nothing, also when it names a box. */
static void refusal_not_taken(void **state)
{
    (void) state;
    begin(true);
    reply(SP_SPEC_CONFLICT, 7);
    seen.on_taken(seen.ctx, SP_IO);
    expect(0, 0, 0);
}

static void gone_while_waiting(void **state)
{
    (void) state;
    begin(true);
    seen.on_gone(seen.ctx);
    expect(1, 0, 0);
}

static void lost_and_asked_again(void **state)
{
    (void) state;
    begin(true);
    seen.asks_again = 1;
    reply(SP_SANDBOX_LOST, 6);
    assert_int_equal(seen.started, 2);
    assert_int_equal(seen.ended, 0);
    seen.on_gone(seen.ctx);
    expect(1, 0, 0);

    begin(true);
    seen.asks_again = 1;
    reply(SP_SANDBOX_LOST, 6);
    reply(SP_OK, 7);
    seen.on_taken(seen.ctx, SP_IO);
    expect(0, 1, 0);
}

static void hold(void)
{
    begin(true);
    seen.keeps = true;
    reply(SP_OK, 7);
    assert_int_equal(seen.ended, 0);
}

static void held_and_taken(void **state)
{
    (void) state;
    hold();
    assert_true(front_is_wanted(made, true));
    front_answer(made);
    seen.on_taken(seen.ctx, SP_OK);
    expect(0, 0, 0);
}

static void held_and_not_taken(void **state)
{
    (void) state;
    hold();
    assert_true(front_is_wanted(made, true));
    front_answer(made);
    seen.on_taken(seen.ctx, SP_IO);
    expect(0, 1, 0);
}

static void gone_while_held(void **state)
{
    (void) state;
    for (unsigned spoiled = 0; spoiled < 2; spoiled++) {
        hold();
        seen.on_gone(seen.ctx);
        assert_int_equal(seen.cancelled, 1);
        assert_int_equal(seen.ended, 0); /* the work on the box ends first */
        assert_int_equal(seen.undelivered, 0);
        assert_false(front_is_wanted(made, spoiled));
        expect(0, 1, spoiled);
    }
}

/* The work on the box failed: undone once, whether or not the refusal is read. */
static void undone(void **state)
{
    (void) state;
    for (int result = 0; result < 2; result++) {
        hold();
        front_undo(made, true);
        front_undo(made, false);
        front_answer(made);
        seen.on_taken(seen.ctx, result == 0 ? SP_OK : SP_IO);
        expect(0, 1, 1);
    }
}

static void withdrawn_while_waiting(void **state)
{
    (void) state;
    begin(true);
    assert_true(front_withdraw(made));
    assert_int_equal(seen.abandoned, 1);
    front_disown(made);
    front_answer(made);
    seen.on_taken(seen.ctx, SP_IO);
    expect(1, 0, 0);
}

static void withdrawn_while_held(void **state)
{
    (void) state;
    hold();
    assert_false(front_withdraw(made));
    assert_int_equal(seen.cancelled, 1);
    assert_true(front_is_wanted(made, true));
    front_disown(made);
    front_answer(made);
    seen.on_taken(seen.ctx, SP_IO);
    expect(0, 0, 0); /* whoever withdrew it sees to the box */
}

static void without_a_caller(void **state)
{
    (void) state;
    begin(false);
    front_forget(made); /* while it waits */
    expect(1, 0, 0);

    begin(false);
    seen.keeps = true;
    reply(SP_OK, 7);
    front_forget(made); /* the lease stays */
    expect(0, 0, 0);

    begin(false);
    seen.keeps = true;
    reply(SP_OK, 7);
    front_undo(made, false);
    front_forget(made);
    expect(0, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken),
        cmocka_unit_test(not_taken),
        cmocka_unit_test(refusal_not_taken),
        cmocka_unit_test(gone_while_waiting),
        cmocka_unit_test(lost_and_asked_again),
        cmocka_unit_test(held_and_taken),
        cmocka_unit_test(held_and_not_taken),
        cmocka_unit_test(gone_while_held),
        cmocka_unit_test(undone),
        cmocka_unit_test(withdrawn_while_waiting),
        cmocka_unit_test(withdrawn_while_held),
        cmocka_unit_test(without_a_caller),
    };

    return cmocka_run_group_tests_name("front_deliver", tests, NULL, NULL);
}
