"""The published types of the AIO sandbox's answers as data, and a validator that does what a client with types does
with an answer: a required field that is missing or null, or a value of another type, is a failure.

One line per class: its fields, `*` behind the name of a required one. An optional field may be missing or null. Where
the published type lists words and then allows anything, the words are what an answer of ours has to use."""

import datetime
import re

TABLE = """
CommandStatus = 'pending' 'running' 'completed' 'timed_out' 'killed'
BashCommandStatus = 'running' 'completed' 'no_change_timeout' 'hard_timeout' 'terminated'
SessionStatus = 'ready' 'closed'

Response: success bool, message str, data any, hint str
HttpValidationError: detail list[ValidationError]
ValidationError: loc* list[str_or_int], msg* str, type* str

SandboxResponse: success bool, message str, data str, hint str, home_dir* str, workspace str, version* str, detail* SandboxDetail
SandboxDetail: system* SystemEnv, runtime* RuntimeEnv, utils* list[ToolCategory]
SystemEnv: os* str, os_version* str, arch* str, user* str, home_dir* str, workspace str, timezone* str, occupied_ports* list[str]
RuntimeEnv: python* list[ToolSpec], nodejs* list[ToolSpec]
ToolSpec: ver str, bin str, alias list[str]
ToolCategory: category* str, tools* list[AvailableTool]
AvailableTool: name* str, description str

BashExecResult: session_id* str, command_id* str, command* str, status* CommandStatus, stdout str, stderr str, exit_code int, offset int, stderr_offset int
BashOutputResult: session_id* str, stdout str, stderr str, offset int, stderr_offset int, command BashCommandInfo
BashCommandInfo: command_id* str, command* str, status* CommandStatus, exit_code int
BashSessionInfo: session_id* str, status* SessionStatus, working_dir* str, created_at* datetime, last_used_at* datetime, current_command str, command_count int

ShellCommandResult: session_id* str, command* str, status* BashCommandStatus, output str, console list[ConsoleRecord], exit_code int
ConsoleRecord: ps1* str, command* str, output str
ShellViewResult: output* str, session_id* str, console list[ConsoleRecord], status* BashCommandStatus, command str, exit_code int
ShellWaitResult: status* BashCommandStatus
ShellWriteResult: status* BashCommandStatus
ShellKillResult: status* BashCommandStatus, exit_code int, returncode int
ShellCreateSessionResponse: session_id* str, working_dir* str
ActiveShellSessionsResult: sessions* dict[ShellSessionInfo]
ShellSessionInfo: working_dir* str, created_at* datetime, last_used_at* datetime, age_seconds* int, status* str, current_command str
ShellSessionStats: total_sessions* int, active_sessions* int, idle_sessions* int, max_sessions* int, session_timeout* int, usage_ratio* float

FileReadResult: content* str, file* str
FileWriteResult: file* str, bytes_written int
FileReplaceResult: file* str, replaced_count int
FileSearchResult: file* str, matches list[str], line_numbers list[int]
FileFindResult: path* str, files list[str]
FileGlobResult: path* str, pattern* str, files list[GlobFileInfo], total_count int, truncated bool
GlobFileInfo: path* str, name* str, is_directory bool, size int, modified_time str
FileGrepResult: path* str, pattern* str, matches list[GrepMatch], match_count int, files_searched int, files_matched int, truncated bool
GrepMatch: file* str, line_number* int, line_content* str, context_before list[str], context_after list[str]
FileListResult: path* str, files list[FileInfo], total_count int, directory_count int, file_count int
FileInfo: name* str, path* str, is_directory* bool, size int, modified_time str, permissions str, extension str
FileUploadResult: file_path* str, file_size* int, success* bool
StrReplaceEditorResult: output* str, error str, path* str, prev_exist* bool, old_content str, new_content str, metadata dict[any]
FileOperationError: path* str, operation* str, message* str, error_type* str, retryable bool, errno int, errno_name str, exception_type str
"""

# The type of "data" in the answer of each call; None is an answer that is no envelope.
CALLS = {
    "POST /v1/bash/exec": "BashExecResult",
    "POST /v1/bash/output": "BashOutputResult",
    "POST /v1/bash/write": "any",
    "POST /v1/bash/kill": "any",
    "GET /v1/bash/sessions": "list[BashSessionInfo]",
    "POST /v1/bash/sessions/create": "BashSessionInfo",
    "POST /v1/bash/sessions/{id}/close": "any",
    "POST /v1/shell/exec": "ShellCommandResult",
    "POST /v1/shell/view": "ShellViewResult",
    "POST /v1/shell/wait": "ShellWaitResult",
    "POST /v1/shell/write": "ShellWriteResult",
    "POST /v1/shell/kill": "ShellKillResult",
    "GET /v1/shell/terminal-url": "str",
    "GET /v1/shell/sessions": "ActiveShellSessionsResult",
    "GET /v1/shell/sessions/stats": "ShellSessionStats",
    "POST /v1/shell/sessions/create": "ShellCreateSessionResponse",
    "POST /v1/shell/sessions/update": "ShellCreateSessionResponse",
    "DELETE /v1/shell/sessions/{id}": "any",
    "DELETE /v1/shell/sessions": "any",
    "POST /v1/file/read": "FileReadResult",
    "POST /v1/file/write": "FileWriteResult",
    "POST /v1/file/replace": "FileReplaceResult",
    "POST /v1/file/str_replace_editor": "StrReplaceEditorResult",
    "POST /v1/file/search": "FileSearchResult",
    "POST /v1/file/find": "FileFindResult",
    "POST /v1/file/grep": "FileGrepResult",
    "POST /v1/file/glob": "FileGlobResult",
    "POST /v1/file/list": "FileListResult",
    "POST /v1/file/upload": "FileUploadResult",
    "GET /v1/file/download": None,
    "GET /v1/sandbox": None,
}


def _read_table():
    classes, words = {}, {}
    for line in filter(None, TABLE.splitlines()):
        if " = " in line:
            name, values = line.split(" = ")
            words[name] = re.findall(r"'(\w+)'", values)
            continue
        name, fields = line.split(": ")
        classes[name] = [(*re.fullmatch(r"(\w+)(\*?) (\S+)", field).groups(),)
                         for field in fields.split(", ")]
    return classes, words


CLASSES, WORDS = _read_table()


def _is_time(value):
    """RFC 3339 with a zone: what every parser of times takes."""
    if not isinstance(value, str) or not re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", value):
        return False
    try:
        datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


PLAIN = {
    "any": lambda v: True,
    "str": lambda v: isinstance(v, str),
    "bool": lambda v: isinstance(v, bool),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "float": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "str_or_int": lambda v: isinstance(v, (str, int)) and not isinstance(v, bool),
    "datetime": _is_time,
}


def problems(value, type_name, place="answer"):
    """A list of sentences; empty when the value is of this type."""
    of = re.fullmatch(r"(list|dict)\[(\w+)\]", type_name)
    if of:
        kind, item = of.groups()
        if not isinstance(value, list if kind == "list" else dict):
            return [f"{place} is no {kind}: {value!r:.80}"]
        items = enumerate(value) if kind == "list" else value.items()
        return [p for key, v in items for p in problems(v, item, f"{place}[{key}]")]
    if type_name in WORDS:
        return [] if value in WORDS[type_name] else [f"{place} is not one of {WORDS[type_name]}: {value!r}"]
    if type_name in PLAIN:
        return [] if PLAIN[type_name](value) else [f"{place} is no {type_name}: {value!r:.80}"]
    if not isinstance(value, dict):
        return [f"{place} is no {type_name}: {value!r:.80}"]
    found = []
    for name, is_needed, field_type in CLASSES[type_name]:
        if value.get(name) is not None:
            found += problems(value[name], field_type, f"{place}.{name}")
        elif is_needed:
            found.append(f"{place}.{name} is {'null' if name in value else 'missing'}")
    return found


def answer_problems(call, status, body):
    """What a client with these types cannot take in an answer."""
    if call == "GET /v1/sandbox":
        return problems(body, "SandboxResponse")
    found = problems(body, "Response")
    if found:
        return found
    if status < 300:
        found += [] if body.get("success") is True else ["a success without success"]
        if CALLS[call] != "any":
            found += problems(body.get("data"), CALLS[call], "data")
        return found
    found += [] if body.get("success") is False else ["a failure without success false"]
    found += [] if body.get("message") else ["a failure without a message"]
    if status == 422:
        found += problems(body, "HttpValidationError")
        found += [] if body.get("detail") else ["422 without a detail"]
    elif body.get("data") is not None:
        found += problems(body["data"], "FileOperationError", "data")
    return found
