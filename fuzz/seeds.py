#!/usr/bin/env python3
"""Writes what fuzz targets begin with to fuzz/corpus/TARGET/: the test vectors, in the form that each target reads, and for
those that read operations or files a few that do something.

Needs nothing but Python's standard library. Run it from anywhere; `fuzz/run` does.
"""

import hashlib
import json
import struct
from pathlib import Path

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parent / "tests" / "vectors"


def vectors(file):
    """Each vector as a dictionary of lists, in the order of its lines."""
    found = []
    for line in (VECTORS / file).read_text().splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, _, value = line.partition(":")
        if key == "name":
            found.append({})
        found[-1].setdefault(key, []).append(value.strip())
    return found


def joined(vector, key):
    return bytes.fromhex("".join(vector.get(key, [])))


def last_slice(front, rest):
    """Two byte slices as `arbitrary` reads them: the length of the first stands at the end, in as many bytes as it needs."""
    for width, form in ((1, "<B"), (2, "<H"), (4, "<I")):
        if len(front) + len(rest) + width <= 1 << (8 * width):
            return front + rest + struct.pack(form, len(front))
    raise ValueError("too long")


def frames():
    for file in ("hello.txt", "control.txt", "blocks.txt", "records.txt", "contexts.txt"):
        yield from (joined(vector, "hex") for vector in vectors(file))


def codecs():
    for file in ("codecs.txt", "contexts.txt"):
        for vector in vectors(file):
            room = int(vector.get("room", ["0"])[0]) or len(joined(vector, "plain"))
            yield struct.pack("<H", min(room, 0xFFFF)) + joined(vector, "hex")


def session():
    """What `session.rs` reads: settings, then operations, of which 0 is to hear so many bytes."""
    hear = lambda said: b"".join(bytes([0, len(said[at:at + 255])]) + said[at:at + 255] for at in range(0, len(said), 255))
    # Time that passes, streams and messages, what is read, and what is written, between what is heard.
    between = b"\x0c\x10" b"\x0d\2" b"\x0e\0\x20" b"\x0f\0\5" b"\x12\0" b"\x19\xff"
    for file in ("session.txt", "left.txt"):
        for vector in vectors(file):
            for role, side in ((0, "connector"), (1, "acceptor")):
                said = joined(vector, side)
                hello = 8 + struct.unpack_from("<H", said, 6)[0] + 4 if len(said) > 8 else 0
                # All of it to one that has heard nothing, and what follows the hello to one that has.
                for settings in (0, 8, 0x18):
                    yield bytes([settings | role]) + hear(said)
                    yield bytes([settings | 2 | role]) + between + hear(said[hello:]) + between
    for settings in (2, 3, 6, 7):
        yield bytes([settings]) + between * 3 + b"\x14" + between
        yield bytes([settings]) + between + b"\x16\x17\x1e" + between + b"\0\1\xff\x17\x1e" + between
        for op in range(12, 31):
            yield bytes([settings]) + between + bytes([op, 1, 1]) + between


def envelope():
    for vector in vectors("envelope.txt"):
        held = bytes.fromhex(vector.get("dictionary", [""])[0])
        yield last_slice(held, joined(vector, "hex"))


def corpus():
    messages = [b"attach request", b"attach accept", b"", b"detach"]
    yield b"".join(struct.pack("<I", len(it)) + it for it in messages)
    yield b"one line\nanother\r\nthe last"
    rows = [{"cell": 17, "load": 0.5}, {"cell": 18, "load": 0.25, "name": "\u00e9"}]
    yield "\n".join(json.dumps(row) for row in rows).encode()
    yield json.dumps(rows).encode()
    udp = struct.pack(">HHHH", 5060, 5060, 8 + 6, 0) + b"INVITE"
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, b"\x7f\0\0\1", b"\x7f\0\0\2")
    frame = b"\2" * 12 + b"\x08\x00" + ip + udp
    for magic in (0xA1B2C3D4, 0xA1B23C4D):
        for order in "<>":
            head = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
            packet = struct.pack(order + "IIII", 1, 2, len(frame), len(frame)) + frame
            yield head + packet * 2
    block = lambda kind, body: struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)
    padded = frame + b"\0" * (-len(frame) % 4)
    yield (block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, 65535))
           + block(6, struct.pack("<IIIII", 0, 0, 1, len(frame), len(frame)) + padded) + block(3, struct.pack("<I", len(frame)) + padded))


def dictionary():
    yield from (joined(vector, "dictionary") for vector in vectors("envelope.txt") if "dictionary" in vector)
    yield from (joined(vector, "prime") for vector in vectors("contexts.txt") if "prime" in vector)


def dictionary_frames():
    """What `dictionary_frames.rs` reads: 0 and what one session gets, or 1 and what two do."""
    yield from (b"\0" + seed for seed in dictionary_bytes())
    yield from (b"\1" + seed for seed in dictionary_exchange())


def dictionary_exchange():
    """What `exchange.rs` reads: what each side sends with, holds and takes, then operations."""
    one_way = lambda sends, holds, takes: bytes([sends, 0, takes, 0xE0, holds, takes])
    opens = b"\0\x15\0\x35\0\x4d"  # of classes a, b and c, with the dictionary and nothing else
    send = lambda stream, which, at=0: bytes([0x71, stream, which, at, 60])
    talk = b"".join(send(which % 3, which) for which in range(5)) + b"\7"
    for sends, holds, takes in [(0x1F, 0x40, 3), (0x1F, 0x5F, 3), (0x1F, 0x40, 0), (0x1B, 0x44, 7), (3, 2, 11), (0x1F, 0, 0x73), (0, 0x40, 3)]:
        begin = one_way(sends, holds, takes) + opens
        yield begin + talk + b"\x78\x40" + talk + b"\x58\xff" + talk
        # Another connection, the next session with all that was, and with what is lost.
        yield begin + talk + b"\x0c" + talk + b"\x0e\0" + opens + talk + b"\x0e\xff" + opens + talk
        # Trained anew of what is said, with time for it.
        yield begin + b"".join(send(0, 4, at) + b"\7\x38\x20" for at in range(0, 200, 16)) + talk
        for who in (0, 0x80):
            for what in (0, 8, 0x10, 3, 5, 7):
                for number in (1, 2):
                    yield begin + bytes([who | 10, what, number, 1]) + talk + bytes([who | 10, what, number, 0]) + talk
            for disorder in (0, 1, 0x40, 0x80, 0xC8):
                yield begin + bytes([who | 11, disorder]) + talk + bytes([who | 0x2B, disorder]) + talk + bytes([who | 0x3B, disorder]) + talk
    yield bytes([0x1F, 0x40, 3, 0x1F, 0x40, 3]) + opens + b"\x80\x15\x80\x35" + talk + b"\x1d" + talk + b"\x8e\x21" + opens + talk


def dictionary_bytes():
    """An operation, a number, a length and so many bytes."""
    def op(code, number=0, content=b""):
        # Above 127, lengths are multiples of 16: what is cut off is nobody's loss here.
        content = content if len(content) < 128 else content[: len(content) // 16 * 16]
        return bytes([code, number, len(content) if len(content) < 128 else 127 + len(content) // 16]) + content

    content = b"attach request imsi 26201987; paging request; timer 54; cause 15; accepted"
    stream = op(8, 1)
    # One record of stream 2: literals alone, and with a match of 30 bytes into the dictionary.
    record = b"\x10\x02attach request"
    bare = bytes([len(record) << 4 if len(record) < 15 else 0xF0]) + (bytes([len(record) - 15]) if len(record) >= 15 else b"") + record
    reach = len(content) + 2
    matched = bytes([2 << 4 | 15]) + b"\x10\x02" + struct.pack("<H", reach) + bytes([30 - 4 - 15]) + b"\xc0" + b"accepted now"
    defines = [op(0x96, 1, b"\1"), op(0x97, 1, b"\1\x11"), op(0x97, 1, b"\3\x11"), op(0x96, 1, b"\3"), op(0x97, 1, b"\4\x0a\0")]
    for codec in (0, 1, 3, 4):
        for define in defines:
            blocks = op(0x9A, 0, matched) + op(0x9A, 0, bare) + op(0x9B, 1, matched) + op(0x9C, 8, bare)
            yield stream + op(codec << 4, 1, content * 3) + define + blocks + op(4, 1) + op(0x9A, 0, bare)
    # An offer whose pieces are other frames', one after another, answers to none, and what follows a refusal.
    pieces = op(3, 1, content[:20]) + op(3, 1, content[20:])
    yield op(1, 1, content) + pieces + defines[0] + op(1, 2, content[::-1]) + op(3, 2, content[::-1])
    yield op(2, 1, content) + op(3, 1, content)
    yield b"".join(op(verdict << 4 | 5, 1) for verdict in range(3))
    yield b"".join(op(0, number, content[number:]) for number in range(1, 7)) + b"".join(op(4, number) for number in range(1, 7))
    # Bodies with history and their primes, and all frames that vectors know.
    for vector in vectors("contexts.txt"):
        prime = bytes.fromhex(vector.get("prime", [""])[0])
        codec, window = int(vector["codec"][0]), int(vector.get("window_log", ["17"])[0])
        begin = op(0, 1, prime) + op(0x97, 1, bytes([codec, window])) if len(prime) >= 8 else op(0x97, 1, bytes([codec, window, 0]))
        yield stream + begin + b"".join(op(0x9A, 0, bytes.fromhex(body)[:2048]) for body in vector["hex"])
    for vector in vectors("control.txt"):
        yield stream + op(9, 0, joined(vector, "hex"))


def dictionary_cache():
    """What `dictionary_cache.rs` reads: a size, then operations."""
    store = lambda number, time: bytes([0, number, 0, time])
    yield b"\xff" + store(0x11, 1) + store(0x22, 2) + b"\3\x11\3" + b"\4\0\4" + b"\5\x11\5"
    # Files of other bytes, damaged, cut off, as long as can be, and directories.
    for what in (0, 1, 2, 0xF3, 4, 5, 6, 7, 8, 9, 10, 11):
        yield b"\x40" + store(0x31, 1) + bytes([7, what, 0x31, 20]) + b"TLDC\1" + b"\0" * 15 + b"\4\0\4" + store(0x52, 9) + b"\6\x31\6"
    yield b"\x10" + b"".join(store(number << 4, number) for number in range(16))
    # By two users, full, read-only, a file and begun again.
    both = lambda number: store(number, 1) + bytes([0x80, number, 0, 2]) + bytes([3, number, 3, 0x83, number, 4])
    for what in range(4):
        yield b"\xff" + both(0x11) + bytes([10, what]) + both(0x22) + both(0x11) + bytes([0x8A, 2, 10, what]) + both(0x31) + b"\x85\x11\5"


def resume():
    """What `resume.rs` reads: four settings, then operations."""
    settings = bytes([1, 4, 6, 10])
    begin = b"\0\6" + b"\x80\x02" + b"\x17"  # each side opens a stream
    send = lambda who, number, code: bytes([who | 2, number, code, number])
    for fault in (b"\x0d", b"\x0e", b"\x8e", b"\x12", b"\x13\7\0", b"\x14\x10\0"):
        talk = b"".join(send(who, number, code) for who in (0, 0x80) for number in (0, 1) for code in (5, 140, 230))
        yield settings + begin + talk + fault + b"\x0f" + talk + b"\x17" + fault + b"\x0f"
    # Whole frames that are lost, come twice, change places, or come again; histories and without.
    for policy in (b"\x06", b"\x26", b"\x02", b"\x04"):
        for op in (0x33, 0x53, 0xD3, 0x73):
            for what in (0, 2, 0x40, 0x80, 0xC0, 0xC8, 0xD9):
                talk = b"".join(send(who, 0, code) + b"\x17" for code in (40, 50, 60, 140) for who in (0, 0x80))
                yield bytes([1, 4, 6, 10]) + b"\0" + policy + b"\x80" + policy + talk + bytes([op, what]) + talk + b"\x0f" + talk
    # Codecs that take their time, windows that fill, time that passes, a crash of either side, a close.
    yield settings + begin + b"\x3b\xbb" + send(0, 0, 200) * 4 + b"\x17\x0d\x0f\x1c\x9c\x17"
    yield bytes([9, 0, 0, 0]) + begin + b"\x1d\x9d" + send(0, 0, 230) * 9 + b"\x17\x1a\x18\x17\x3d\x1e\x17"
    for crash in (0x3F, 0xBF):
        yield settings + begin + send(0, 0, 140) * 3 + b"\x14\xff\0" + bytes([crash])
    for close in (0x1F, 0x9F):
        yield settings + b"\0\6" + send(0, 0, 5) + bytes([close]) + b"\x14\xff\0\x0d\x0f\x17"


def event_sets():
    folder = HERE.parent / "src" / "pmu"
    yield from (path.read_bytes() for path in sorted(folder.glob("*/*.toml")))
    sets = {"sets": [{"name": "a", "events": ["cycles", "L1-dcache-loads"], "group": False, "gauges": ["g"],
                      "metrics": {"m": "1000 * cycles / (L1-dcache-loads - -2.5e3)", "n": "g * seconds"}}],
            "stack": [{"level": "x", "set": "a", "per_instruction": "cycles / 3", "penalty": "l2"}]}
    yield json.dumps(sets).encode()
    yield b"(a + b-c) * -(1.5e-3 / L1-dcache-loads)"
    yield json.dumps({"name": "m", "vendor": "AuthenticAMD", "families": ["0x19"], "events": {"e": {"event": "0x1a9", "umask": 255}},
                      "penalties": {"l2": 12.5}}).encode()
    head = {"tautline_monitor": 1, "hz": 100.0, "slots": 8, "origin_unix_ns": 5, "gauges": [{"name": "g", "is_count": True}],
            "event_sets": sets}
    count = lambda number: {"count": number, "enabled_ns": 1000, "running_ns": 500}
    rows = [{"at_ns": at, "interval_ns": 10, "set": "a", place: 1, "events": {"cycles": count(at), "L1-dcache-loads": count(7)},
             "gauges": {"g": 0.5}} for at in (10, 20, 30) for place in ("pid", "cpu")]
    yield "\n".join(json.dumps(row) for row in [head, *rows, {"end": True}]).encode()


def event_log():
    # Format, stamp, second log, rows of two threads; whether a reader begins before; then changes: what, where, a byte.
    for form in range(4):
        for begun in (0, 1):
            begin = bytes([0, form, form % 3, form & 1, 9 + 60 * begun, 5, begun])
            yield begin
            for at in range(0, 16):
                yield begin + bytes([2 + at % 6, at, 0, 1, 3, 3 * at, 1, 2])
            yield begin + bytes([1, 200, 0, 4, 0, 5, 40, 0, 63])


def main():
    for make in (frames, codecs, session, envelope, corpus, dictionary, dictionary_frames, dictionary_cache, resume, event_sets,
                 event_log):
        directory = HERE / "corpus" / make.__name__
        directory.mkdir(parents=True, exist_ok=True)
        seeds = set(make()) - {b""}
        for seed in seeds:
            (directory / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
        print(f"{len(seeds)} seeds for {make.__name__}")


if __name__ == "__main__":
    main()
