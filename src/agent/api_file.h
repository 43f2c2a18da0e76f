/* api_file.h - /v1/file/...: read, write, replace, str_replace_editor, search, find, grep, glob,
 * list, upload, download.
 *
 * Paths are absolute, or relative to the agent's directory ("~" is the home). There is no list of
 * allowed places: the user's own rights are the limit, or those of the box's root for a JSON request
 * with "sudo": true. What is made belongs to whom it was made for. Regular files and directories are served,
 * nothing else, and nothing below /proc/<pid> (plain.h).
 *
 * Answers are envelopes. A failed operation has success false, data {path, operation, message,
 * error_type, retryable, errno?, errno_name?} and always a status that says so, because clients take
 * a 200 without content for an empty file: 404 no such file, 403 not permitted, 400 wrong kind of file
 * or not text, 409 busy or changed, 413 too large, 416 no such range, 507 no space, 500 other
 * failures, 503 no resources, 504 no time. A request that makes no sense is answered with 422.
 *
 * Limits: JSON requests of 64 MiB, 16 MiB of text in an answer, 20 s of work. What was not shown is
 * told by "truncated": true; only read never truncates, it fails. Uploads and downloads have no limit
 * and need the same memory for every size. grep with "multiline" reads files of at most 8 MiB and finds
 * every match of up to 16 KiB; its answer has the whole lines of a match. */
#ifndef AGENT_API_FILE_H
#define AGENT_API_FILE_H

#include "http/http.h"

extern const struct http_route agent_file_routes[];

#endif
