"""The database of a daemon as the first release would have it."""
import pathlib
import sqlite3


def make_first_version(state):
    """Gives the rows in the database of `state` the tables of version 1. Nobody may have it open. Returns its version before."""
    path, older = state / "sandpool.db", state / "old.db"
    new, old = sqlite3.connect(path), sqlite3.connect(older)
    old.executescript((pathlib.Path(__file__).parent / "schema_1.sql").read_text())
    for (table,) in old.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        names = [row[1] for row in old.execute(f"PRAGMA table_info({table})")]
        rows = new.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()
        old.executemany(f"INSERT INTO {table}({', '.join(names)}) VALUES({', '.join('?' * len(names))})", rows)
    old.execute("PRAGMA user_version = 1")
    old.execute(f"PRAGMA application_id = {new.execute('PRAGMA application_id').fetchone()[0]}")
    version = new.execute("PRAGMA user_version").fetchone()[0]
    old.commit()
    old.close()
    new.close()
    for name in ("sandpool.db-wal", "sandpool.db-shm"):
        (state / name).unlink(missing_ok=True)
    older.rename(path)
    return version
