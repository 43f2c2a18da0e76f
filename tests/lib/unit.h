/* unit.h - cmocka, and the headers it needs before it: what a test in C includes. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* after the four above */
