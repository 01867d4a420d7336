#!/usr/bin/env python3
"""Checks the test vectors with a second implementation, written from docs/wire.md and docs/envelope.md alone.

Needs nothing but Python's standard library. Run it from anywhere:

    python3 tests/vectors/check.py

zstd bodies with compressed blocks are skipped: the standard library cannot read them.
"""

import bz2
import hashlib
import lzma
import struct
import sys
import zlib
from pathlib import Path

MAGIC = b"\x8eTLN"
MAX_STREAM = (1 << 28) - 1
MESSAGE_CHARGE = 32
LONGEST = 16 << 20
ROLES = ("connector", "acceptor")
CODES = {  # error -> go-away code
    "WrongMagic": 2, "Version": 2, "Feature": 3, "FieldTooLarge": 4, "Checksum": 5,
    "Undecodable": 6, "WrongPlainLen": 6,
}


class Bad(Exception):
    """The peer's fault; args[0] is the error's name."""


class More(Exception):
    """More bytes are needed."""


class Reader:
    """Reads fields of `data`; what happens at its end is `end`."""

    def __init__(self, data, end=Bad("Truncated")):
        self.data, self.at, self.end = data, 0, end

    def bytes(self, count):
        if len(self.data) - self.at < count:
            raise self.end
        self.at += count
        return self.data[self.at - count:self.at]

    def byte(self):
        return self.bytes(1)[0]

    def varint(self):
        value = 0
        for index in range(10):
            byte = self.byte()
            if index == 9 and byte > 1:
                raise Bad("BadVarint")
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if byte == 0 and index > 0:
                    raise Bad("BadVarint")
                return value
        raise Bad("BadVarint")

    def varint_to(self, limit):
        value = self.varint()
        if value > limit:
            raise Bad("FieldTooLarge")
        return value

    def text(self):
        raw = self.bytes(self.varint_to(255))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise Bad("NotText") from None

    def rest(self):
        return len(self.data) - self.at

    def finish(self):
        if self.rest():
            raise Bad("TrailingBytes")


def crc32(data):
    return zlib.crc32(data) & 0xFFFFFFFF


class Chain:
    def __init__(self):
        self.value = 0

    def advance(self, plain):
        self.value = crc32(struct.pack("<II", self.value, crc32(plain)))
        return self.value


# ---- hello

def parse_hello(data):
    if data[:4] != MAGIC[:len(data)]:
        raise Bad("WrongMagic")
    if len(data) < 8:
        raise More
    high, low, length = data[4], data[5], struct.unpack("<H", data[6:8])[0]
    if min(high, 1) < 1 or min(high, 1) < low:
        raise Bad("Version")
    end = 8 + length
    if end + 4 > 4096:
        raise Bad("FieldTooLarge")
    if len(data) < end + 4:
        raise More
    if struct.unpack("<I", data[end:end + 4])[0] != crc32(data[:end]):
        raise Bad("Checksum")
    hello, body = {"versions": (low, high)}, Reader(data[8:end])
    seen = set()
    while body.rest():
        tag = body.byte()
        if tag < 128 and tag in seen:
            raise Bad("Unexpected")
        seen.add(tag)
        value = Reader(body.bytes(body.varint_to(length)))
        if tag == 1:
            hello["session"], role = value.bytes(16), value.byte()
            if role >= len(ROLES):
                raise Bad("Unknown")
            hello["role"] = ROLES[role]
        elif tag == 2:
            hello["codecs"] = []
            while value.rest():
                hello["codecs"].append((value.byte(), value.byte()))
        elif tag == 3:
            hello["offered"], hello["required"] = value.varint(), value.varint()
        elif tag == 4:
            for name in ("max_message", "max_block", "max_streams", "window"):
                hello[name] = value.varint()
        elif tag == 5:
            hello["credit"] = value.varint()
        elif tag == 145:
            hello["longest"], hello["most"] = value.varint(), value.varint()
            hello["held"] = []
            while value.rest():
                hello["held"].append(value.bytes(8))
            if len(hello["held"]) > hello["most"]:
                raise Bad("FieldTooLarge")
        elif tag == 144:
            hello["history"] = value.varint()
        elif tag == 146:
            hello["resume"] = (value.bytes(16), value.varint(), value.varint())
            value.finish()
        elif tag < 128:
            raise Bad("Unknown")
        if tag < 128:
            value.finish()
    for name in ("offered", "window", "session", "codecs"):
        if name not in hello:
            raise Bad("MissingField")
    return hello, end + 4


def show_hello(hello):
    codecs = ",".join(f"{codec}:{log}" for codec, log in hello["codecs"])
    low, high = hello["versions"]
    credit = f" credit={hello['credit']}" if "credit" in hello else ""
    dictionaries = ""
    if hello.get("longest"):
        held = ",".join(prefix.hex() for prefix in hello["held"])
        dictionaries = f" dictionaries={hello['longest']}:{hello['most']}:{held}"
    resume = ""
    if "resume" in hello:
        token, connection, received = hello["resume"]
        resume = f" resume={token.hex()}:{connection}:{received}"
    return (
        f"hello versions={low}-{high} role={hello['role']} session={hello['session'].hex()} codecs={codecs}"
        f" offered={hello['offered']:#x} required={hello['required']:#x}"
        f" max_message={hello['max_message']} max_block={hello['max_block']}"
        f" max_streams={hello['max_streams']} window={hello['window']}{credit}{dictionaries}{resume}"
    )


# ---- frames

def parse_frame(data, max_body, checks):
    """("block", slot, epoch, plain, body, check, body_at) or ("control", text, kind, fields, length).

    The slot of a tiny block is None."""
    read = Reader(data, More())
    first = read.byte()
    if first < 0x80 or 0xC0 <= first < 0xE0:
        short = first < 0x80
        body = ((first & 7) << 8 | read.byte() if short else first & 31) + 1
        check = struct.unpack("<H", read.bytes(2))[0] if checks else 0
        at = read.at
        read.bytes(body)
        return ("block", first >> 3 if short else None, None, None, body, check, at)
    if first < 0xC0:
        epoch = read.varint() if first & 2 else None
        lengths = []
        for present in (first & 1, 1):
            lengths.append(read.varint() if present else None)
            if lengths[-1] == 0:
                raise Bad("FieldTooSmall")
            if present and lengths[-1] > max_body:
                raise Bad("FieldTooLarge")
        plain, body = lengths
        if epoch is None and plain is None and body <= 2048:
            raise Bad("FieldTooSmall")
        check = struct.unpack("<I", read.bytes(4))[0] if checks else 0
        at = read.at
        read.bytes(body)
        return ("block", first >> 2 & 15, epoch, plain, body, check, at)
    length = read.varint_to(4096)
    body_at = read.at
    body = read.bytes(length)
    crc = struct.unpack("<I", read.bytes(4))[0]
    if crc != crc32(data[:body_at + length]):
        raise Bad("Checksum")
    kind = first & 31
    text, fields = parse_control(kind, body)
    return ("control", text, kind, fields, read.at)


def show_block(frame):
    _, slot, epoch, plain, body, check, at = frame
    absent = lambda value: "-" if value is None else value
    return (
        f"block slot={absent(slot)} epoch={absent(epoch)} plain={absent(plain)} body={body}"
        f" check={check:#x} body_at={at}"
    )


def reports(read):
    count = read.varint_to(64)
    parts = [(read.byte(), read.varint(), read.varint(), read.varint()) for _ in range(count)]
    return ",".join("/".join(map(str, part)) for part in parts)


def parse_control(kind, body):
    read = Reader(body)
    fields = {}

    def take(name, value):
        fields[name] = value
        return f" {name}={value}"

    if kind == 1:
        text = "probe" + take("id", read.varint())
    elif kind == 2:
        text = "probe-reply" + take("id", read.varint()) + take("received", read.varint())
        text += take("held", read.varint()) + take("load", read.varint())
        text += take("budget", read.varint()) + take("decoded", reports(read))
    elif kind == 3:
        text = "ack" + take("frames", read.varint()) + take("wire", read.varint())
        text += take("received", read.varint()) + take("held", read.varint())
        text += take("waited", read.varint()) + take("decoded", reports(read))
    elif kind == 4:
        text = "open" + take("stream", read.varint_to(MAX_STREAM))
        text += take("group", read.varint_to(255))
        text += take("window", read.varint()) + take("name", read.text())
    elif kind == 5:
        text = "close" + take("stream", read.varint_to(MAX_STREAM))
        code = take("code", read.varint_to(0xFFFFFFFF))
        fields["ended"] = f"aborted={fields['code'] - 1}" if fields["code"] else "finished"
        text += " " + fields["ended"]
    elif kind == 6:
        text = "window" + take("stream", read.varint_to(MAX_STREAM)) + take("limit", read.varint())
    elif kind == 7:
        text = "go-away" + take("code", read.varint()) + take("detail", read.text())
    elif kind == 8:
        slot = read.byte()
        if slot > 15:
            raise Bad("Unknown")
        text = "define" + take("slot", slot) + take("codec", read.byte())
        text += take("group", read.varint_to(255))
        flags = read.byte()
        if flags > 1:
            raise Bad("Unknown")
        dictionary = read.varint()
        text += take("history", read.byte() if flags else 0) + take("dictionary", dictionary)
    elif kind == 9:
        what, number = read.byte(), read.varint()
        if not number:
            raise Bad("FieldTooSmall")
        if what == 0:
            text = "dictionary-offer" + take("number", number) + take("len", read.varint())
            text += take("codec", read.byte()) + take("wire", read.varint())
            text += take("hash", read.bytes(32).hex())
        elif what == 1:
            piece = read.bytes(read.rest())
            if not piece:
                raise Bad("FieldTooSmall")
            text = "dictionary-piece" + take("number", number) + take("bytes", piece.hex())
        elif what == 2:
            text = "dictionary-retire" + take("number", number)
        else:
            raise Bad("Unknown")
    elif kind == 10:
        number, verdict = read.varint(), 0
        if not number:
            raise Bad("FieldTooSmall")
        verdict = read.byte()
        if verdict > 2:
            raise Bad("Unknown")
        verdict = ("held", "wanted", "refused")[verdict]
        text = "dictionary-answer" + take("number", number) + take("verdict", verdict)
    elif kind == 11:
        text = "stop" + take("stream", read.varint_to(MAX_STREAM)) + take("messages", read.varint())
        if read.varint() != 1:
            raise Bad("Unknown")
        text += take("too-long", read.varint())
    elif kind == 12:
        stream = read.varint_to(MAX_STREAM + 1)
        text = "credit" + take("stream", stream - 1 if stream else "-") + take("amount", read.varint())
        if not fields["amount"]:
            raise Bad("FieldTooSmall")
    elif kind == 13:
        text = "blocked" + take("stream", read.varint_to(MAX_STREAM)) + take("needs", read.varint())
        if not fields["needs"]:
            raise Bad("FieldTooSmall")
        text += take("had", read.varint())
    elif kind == 14:
        text = "unused" + take("amount", read.varint())
        if not fields["amount"]:
            raise Bad("FieldTooSmall")
    elif kind == 16:
        text = "fault" + take("code", read.varint()) + take("detail", read.text())
    elif kind > 16:
        return "skipped", fields
    else:
        raise Bad("Unknown")
    if kind > 3:  # measurements may have later fields
        read.finish()
    return text, fields


# ---- records

PARTS = ("part", "last-part", "given-up")


class Records:
    def __init__(self):
        self.last = None
        self.unfinished = set()

    def parse(self, plain):
        read = Reader(plain)
        while read.rest():
            head = read.byte()
            if head & 7:
                raise Bad("Unknown")
            if head & 0x10:
                self.last = read.varint_to(MAX_STREAM)
            elif self.last is None:
                raise Bad("Unexpected")
            stream, more, kind = self.last, bool(head & 0x20), head >> 6
            total = None
            if stream in self.unfinished:
                if kind:
                    raise Bad("Unexpected")
                kind = "continued"
            else:
                if kind == 3:
                    part = read.varint()
                    if part > 2:
                        raise Bad("Unknown")
                    kind = PARTS[part]
                else:
                    kind = ("message", "request:%d", "reply:%d")[kind]
                if "%" in kind:
                    kind %= read.varint()
                total = read.varint() if more else None
            length = read.varint_to(read.rest()) if head & 8 else read.rest()
            if length > read.rest():
                raise Bad("FieldTooLarge")
            payload = read.bytes(length)
            (self.unfinished.add if more else self.unfinished.discard)(stream)
            yield stream, kind, more, total, payload


def show_record(record):
    stream, kind, more, total, payload = record
    return (
        f"record stream={stream} kind={kind} more={int(more)}"
        f" total={'-' if total is None else total} payload={payload.hex()}"
    )


# ---- codecs

def lz4(wire, before=b""):
    read, out = Reader(wire, Bad("Undecodable")), bytearray(before)

    def long(nibble):
        total = nibble
        while nibble == 15:
            byte = read.byte()
            total += byte
            if byte < 255:
                break
        return total

    while read.rest():
        token = read.byte()
        out += read.bytes(long(token >> 4))
        if not read.rest():
            return bytes(out[len(before):])
        copy(out, struct.unpack("<H", read.bytes(2))[0], long(token & 15) + 4)
    raise Bad("Undecodable")


def snappy(wire):
    read, out = Reader(wire, Bad("Undecodable")), bytearray()
    length = read.varint()
    while read.rest():
        tag = read.byte()
        if tag & 3 == 0:
            count = tag >> 2
            if count >= 60:
                count = int.from_bytes(read.bytes(count - 59), "little")
            out += read.bytes(count + 1)
        elif tag & 3 == 1:
            copy(out, (tag >> 5) << 8 | read.byte(), (tag >> 2 & 7) + 4)
        else:
            copy(out, int.from_bytes(read.bytes(2 if tag & 3 == 2 else 4), "little"), (tag >> 2) + 1)
    if len(out) != length:
        raise Bad("Undecodable")
    return bytes(out)


def copy(out, distance, count):
    if not 0 < distance <= len(out):
        raise Bad("Undecodable")
    for _ in range(count):
        out.append(out[-distance])


def zstd(wire, window_log):
    read, out = Reader(wire, Bad("Undecodable")), bytearray()
    descriptor, window = read.byte(), read.byte()
    log = 10 + (window >> 3) + (window & 7 != 0)
    if descriptor or log > window_log:
        raise Bad("Undecodable")
    last = False
    compressed = False
    while not last:
        header = int.from_bytes(read.bytes(3), "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == 3:
            raise Bad("Undecodable")
        compressed |= kind == 2
        out += read.bytes(1) * size if kind == 1 else read.bytes(size)
    if read.rest():
        raise Bad("Undecodable")
    return None if compressed else bytes(out)


def decode(codec, wire, max_plain, window_log=20, dictionary=b""):
    """The plain bytes, or None where they need an entropy decoder for zstd."""
    window_log = min(max(window_log, 17), 27)
    try:
        if codec == 0:
            plain = wire
        elif not wire:
            raise Bad("Undecodable")
        elif codec == 1:
            plain = lz4(wire, dictionary[-65535:])
        elif codec == 2:
            plain = snappy(wire)
        elif codec == 3:
            plain = zstd(wire, window_log)
        elif codec == 4:
            state = zlib.decompressobj(-15)
            plain = state.decompress(wire, max_plain + 1)
            if len(plain) <= max_plain and (not state.eof or state.unused_data):
                raise Bad("Undecodable")
        elif codec == 5:
            if wire[:3] != b"BZh" or not 1 <= wire[3] - 48 <= 9:
                raise Bad("Undecodable")
            level = wire[3] - 48
            needed = -(-(max_plain + max_plain // 4) // 99_981)
            if level > min(max(needed, 1), 9) or level > max((1 << window_log) // (128 << 10), 1):
                raise Bad("Undecodable")
            state = bz2.BZ2Decompressor()
            plain = state.decompress(wire, max_plain + 1)
            if len(plain) <= max_plain and (not state.eof or state.unused_data):
                raise Bad("Undecodable")
        elif codec == 6:
            size = min(max(max_plain, 4096), 1 << window_log)
            chain = [{"id": lzma.FILTER_LZMA1, "dict_size": size, "lc": 3, "lp": 0, "pb": 2}]
            state = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=chain)
            plain = state.decompress(wire, max_plain + 1)
            if len(plain) <= max_plain and (not state.eof or state.unused_data):
                raise Bad("Undecodable")
        else:
            raise Bad("Unknown")
    except (zlib.error, OSError, lzma.LZMAError, IndexError):
        raise Bad("Undecodable") from None
    if plain is not None and len(plain) > max_plain:
        raise Bad("Undecodable")
    return plain


# ---- bodies with history

class Context:
    """What a receiver keeps from block to block in a slot with history, since the epoch began."""

    def __init__(self, codec, window_log, prime):
        self.codec, self.window_log = codec, window_log
        self.history = prime[-(1 << window_log):]
        if codec == 4:
            bits = min(window_log, 15)
            self.inflate = zlib.decompressobj(-bits, zdict=prime[-(1 << bits):])

    def decode(self, body, max_plain):
        """The plain bytes, or None where they need an entropy decoder for zstd."""
        if self.codec == 1:
            plain = lz4(body, self.history[-min(1 << self.window_log, 65536):])
        elif self.codec == 3:
            plain = self.zstd(body)
        else:
            try:
                plain = self.inflate.decompress(body + b"\0\0\xff\xff", max_plain + 1)
            except zlib.error:
                raise Bad("Undecodable") from None
            if self.inflate.eof or self.inflate.unconsumed_tail:
                raise Bad("Undecodable")
        if plain is not None:
            if len(plain) > max_plain:
                raise Bad("Undecodable")
            self.history = (self.history + plain)[-(1 << self.window_log):]
        return plain

    def zstd(self, body):
        first, longest = body[0], 1 << min(self.window_log, 17)
        if first & 15 != 13 or first == 0x1D:
            blocks = body if first & 15 != 13 else body[1:]
            blocks = (8 * len(blocks) + 4).to_bytes(3, "little") + blocks
        elif first == 0x0D:
            blocks = (8 * (len(body) - 1)).to_bytes(3, "little") + body[1:]
        elif first == 0x2D:
            blocks = body[1:]
        else:
            raise Bad("Undecodable")
        read, out, compressed = Reader(blocks, Bad("Undecodable")), bytearray(), False
        while read.rest():
            header = int.from_bytes(read.bytes(3), "little")
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            if last or kind == 3 or size > longest or (size == 0 and first != 0x2D):
                raise Bad("Undecodable")
            compressed |= kind == 2
            out += read.bytes(1) * size if kind == 1 else read.bytes(size)
        return None if compressed else bytes(out)


# ---- envelopes

def parse_envelope(data, dictionaries, max_plain, least_name):
    """The message, or None as in decode()."""
    read = Reader(data)
    first = read.byte()
    if first >> 4 != 1:
        raise Bad("Version")
    if first & 3:
        raise Bad("Unknown")
    codec = read.byte()
    if codec > 6:
        raise Bad("Unknown")
    name_len = (0, 4, 8, 32)[first >> 2 & 3]
    if name_len and codec not in (1, 3):
        raise Bad("Undecodable")
    if 0 < name_len < least_name:
        raise Bad("NameTooShort")
    name = read.bytes(name_len)
    plain_len = read.varint() if codec else None
    if codec and plain_len > max_plain:
        raise Bad("TooLong")
    crc = struct.unpack("<I", read.bytes(4))[0]
    body = read.bytes(read.rest())
    if not codec:
        if len(body) > max_plain:
            raise Bad("TooLong")
        plain = body
    else:
        dictionary = b""
        if name_len:
            held = {it for it in dictionaries if hashlib.sha256(it).digest().startswith(name)}
            if not held:
                raise Bad("NoSuchDictionary")
            if len(held) > 1:
                raise Bad("Ambiguous")
            dictionary = held.pop()
        plain = decode(codec, body, plain_len, dictionary=dictionary)
        if plain is not None and len(plain) != plain_len:
            raise Bad("Undecodable")
    if plain is not None and crc32(plain) != crc:
        raise Bad("Checksum")
    return plain


# ---- sessions

class Side:
    """What one side hears: the other's hello and frames."""

    def __init__(self, name, session, window, credit):
        self.name, self.session, self.window = name, session, window
        # What the other side may send on all streams together, and what that side gives this one.
        self.credit, self.left = credit, None
        self.buffer, self.hello, self.checks = b"", None, True
        # Codec and group of each slot; chain and last stream of each group.
        self.slots = {slot: (slot, 0) for slot in range(7)}
        self.groups, self.unfinished = {}, set()
        # The slot of the block before; what slots with history are, and each group's last plain bytes.
        self.last_slot, self.contexts, self.recent = None, {}, {}
        self.partial, self.ended, self.received = {}, set(), {}
        # Streams with a message of which parts are to come.
        self.in_parts = set()
        # Streams on which nothing is taken any more; those that the other side takes nothing more of; whole messages of each.
        self.refused, self.stopped, self.messages = set(), set(), {}
        self.last_opened, self.gone, self.dead, self.log = -1, False, False, []
        # Numbered frames that were heard, and those of this side that the other has acknowledged.
        self.frames, self.acked = 0, 0

    def other(self):
        return self.session.sides[1 - self.session.sides.index(self)]

    def take(self, data):
        self.buffer += data
        try:
            while not self.dead:
                self.step()
        except More:
            pass
        except Bad as bad:
            self.dead = True
            kind = bad.args[0]
            self.log.append(f"error={kind} code={CODES.get(kind, 1)}")

    def step(self):
        if not self.buffer:
            raise More
        if self.hello is None:
            self.hello, length = parse_hello(self.buffer)
            offered = 3 if self.session.history else 1
            if self.hello["role"] == self.name:
                raise Bad("Unexpected")
            if self.hello["required"] & ~offered:
                raise Bad("Feature")
            if self.hello["max_block"] < 4096 or self.hello["window"] < 1:
                raise Bad("FieldTooSmall")
            self.checks = bool(self.hello["offered"] & offered & 1)
            self.buffer = self.buffer[length:]
            self.left = self.hello.get("credit")
            return
        frame = parse_frame(self.buffer, 256 << 10, self.checks)
        if frame[0] == "control":
            self.buffer = self.buffer[frame[4]:]
            self.frames += frame[2] in (4, 5, 7, 8)
            self.on_control(frame[2], frame[3])
            return
        _, slot, epoch, plain_len, body_len, check, at = frame
        body, short = self.buffer[at:at + body_len], not 0x80 <= self.buffer[0] < 0xC0
        self.buffer = self.buffer[at + body_len:]
        self.last_slot = slot = self.last_slot if slot is None else slot
        if slot is None:
            raise Bad("Unexpected")
        if slot not in self.slots:
            raise Bad("Unknown")
        codec, group = self.slots[slot]
        chain, records = self.groups.setdefault(group, (Chain(), Records()))
        records.unfinished = self.unfinished
        if slot in self.contexts:
            plain = self.decode_with_history(slot, epoch, body, plain_len or 256 << 10)
        elif epoch is not None:
            raise Bad("Unexpected")
        else:
            plain = decode(codec, body, plain_len or 256 << 10)
        if plain_len is not None and len(plain) != plain_len:
            raise Bad("WrongPlainLen" if codec == 0 else "Undecodable")
        if self.checks and chain.advance(plain) & (0xFFFF if short else 0xFFFFFFFF) != check:
            raise Bad("Checksum")
        if not plain:
            raise Bad("Unexpected")
        for record in records.parse(plain):
            self.on_record(record)
        self.frames += 1

    def decode_with_history(self, slot, epoch, body, max_plain):
        (codec, group), (window_log, last_epoch, context) = self.slots[slot], self.contexts[slot]
        if epoch != (None if context is None else last_epoch + 1) and epoch is not None:
            raise Bad("Unexpected")
        if context is None or epoch is not None:
            context = Context(codec, window_log, self.recent.get(group, b""))
        self.contexts[slot] = (window_log, last_epoch if epoch is None else epoch, context)
        plain = context.decode(body, max_plain)
        assert plain is not None, "transcripts have no entropy-coded blocks of zstd"
        self.recent[group] = (self.recent.get(group, b"") + plain)[-32768:]
        return plain

    def on_record(self, record):
        stream, kind, more, total, payload = record
        if stream not in self.session.streams or (self.gone or stream in self.ended):
            raise Bad("Unexpected")
        if stream in self.in_parts and kind.startswith(("message", "request")):
            raise Bad("Unexpected")
        if kind == "given-up" and (more or payload):
            raise Bad("Unexpected")
        charge = 0 if kind == "continued" else MESSAGE_CHARGE
        self.received[stream] = self.received.get(stream, 0) + len(payload) + charge
        if self.received[stream] > self.window:
            raise Bad("FieldTooLarge")
        # All credit is general in transcripts: none is given that would be for one stream.
        self.credit -= len(payload) + charge
        if self.credit < 0:
            raise Bad("FieldTooLarge")
        if kind != "continued":
            announced = len(payload) if total is None else total
            if announced > LONGEST:
                self.refuse(stream, announced)
            if not more:
                self.on_message(stream, kind, payload)
                return
            self.partial[stream] = (kind, total, b"")
        kind, total, so_far = self.partial.pop(stream)
        so_far += payload  # Those that are refused are kept here, and nowhere else.
        if len(so_far) > total or (not more and len(so_far) < total):
            raise Bad("Unexpected")
        if more:
            self.partial[stream] = (kind, total, so_far)
        else:
            self.on_message(stream, kind, so_far)

    def on_message(self, stream, kind, payload):
        if kind in PARTS:
            (self.in_parts.add if kind == "part" else self.in_parts.discard)(stream)
        if stream not in self.refused:
            self.messages[stream] = self.messages.get(stream, 0) + 1
            self.log.append(f"stream={stream} {kind} payload={payload.hex()}")

    def refuse(self, stream, announced):
        if stream not in self.refused:
            self.refused.add(stream)
            self.log.append(f"stream={stream} refused={announced}")

    def on_control(self, kind, fields):
        stream = fields.get("stream")
        if kind == 3:
            if fields["frames"] > self.other().frames:
                raise Bad("FieldTooLarge")
            if fields["frames"] < self.acked:
                raise Bad("FieldTooSmall")
            self.acked = fields["frames"]
        elif kind == 4:
            theirs = 0 if self.name == "acceptor" else 1
            if self.gone or stream % 2 != theirs or stream <= self.last_opened:
                raise Bad("Unexpected")
            self.last_opened = stream
            self.session.streams.add(stream)
            self.session.groups[stream] = fields["group"]
            self.log.append(f"stream={stream} opened name={fields['name']}")
        elif kind == 5:
            if stream not in self.session.streams or stream in self.ended:
                raise Bad("Unexpected")
            if stream in self.partial.keys() | self.in_parts and not fields["code"]:
                raise Bad("Unexpected")
            self.partial.pop(stream, None)
            self.ended.add(stream)
            self.log.append(f"stream={stream} {fields['ended']}")
        elif kind == 6:
            if stream not in self.session.streams:
                raise Bad("Unexpected")
        elif kind == 7:
            if self.gone and not fields["code"]:
                raise Bad("Unexpected")
            self.gone = True
            if fields["code"]:
                self.dead = True
                self.log.append(f"gone-away code={fields['code']}")
                return
            for stream in sorted(self.session.streams - self.ended):
                if stream in self.partial.keys() | self.in_parts:
                    raise Bad("Unexpected")
                self.ended.add(stream)
                self.log.append(f"stream={stream} finished")
            if self.other().gone:
                self.log.append("closed")
                self.other().log.append("closed")
        elif kind == 12:
            if self.left is None:
                raise Bad("Unexpected")
            if stream == "-":
                self.left += fields["amount"]
                if self.left >= 1 << 64:
                    raise Bad("FieldTooLarge")
            elif stream not in self.session.streams:
                raise Bad("Unexpected")
        elif kind == 13:
            if stream not in self.session.streams or self.gone or stream in self.ended:
                raise Bad("Unexpected")
            is_begun = stream in self.partial and stream not in self.refused
            is_long = fields["needs"] > LONGEST + MESSAGE_CHARGE
            if fields["had"] or (is_long and is_begun):
                raise Bad("FieldTooLarge")
            if is_long:
                self.refuse(stream, fields["needs"] - MESSAGE_CHARGE)
        elif kind == 11:
            if fields["too-long"] <= LONGEST:
                raise Bad("FieldTooSmall")
            if stream not in self.session.streams:
                raise Bad("Unexpected")
            if fields["messages"] > self.other().messages.get(stream, 0):
                raise Bad("FieldTooLarge")
            if stream not in self.stopped:
                self.stopped.add(stream)
                self.log.append(f"stream={stream} stopped={fields['too-long']}")
        elif kind == 14:
            if fields["amount"] > self.credit:
                raise Bad("FieldTooLarge")
            self.credit -= fields["amount"]
        elif kind in (9, 10):
            raise Bad("Unexpected")
        elif kind == 8:
            # Both sides must offer histories; the other one's hello is known to this side's peer.
            agreed = self.session.history and self.hello["offered"] & 2
            if fields["dictionary"] or (fields["history"] and not agreed):
                raise Bad("Unexpected")
            over = self.ended & self.other().ended
            groups = {self.session.groups[stream] for stream in self.session.streams - over}
            if fields["group"] not in groups | {0} or fields["codec"] > 6:
                raise Bad("Unknown")
            if fields["history"]:
                if fields["codec"] not in (1, 3, 4):
                    raise Bad("Unexpected")
                if not 10 <= fields["history"] <= 20:
                    raise Bad("FieldTooLarge")
            self.contexts.pop(fields["slot"], None)
            if fields["history"]:
                self.contexts[fields["slot"]] = (fields["history"], 0, None)
            self.slots[fields["slot"]] = fields["codec"], fields["group"]
            # A group is forgotten with its last slot that carries history.
            live = {self.slots[slot][1] for slot in self.contexts}
            self.recent = {group: plain for group, plain in self.recent.items() if group in live}


class Session:
    def __init__(self, window, history, credit):
        self.streams, self.groups, self.history = set(), {}, history
        self.sides = [Side(role, self, window, credit) for role in ROLES]


# ---- vectors

def vectors(path):
    """Each vector as a list of (key, value)."""
    found = []
    for line in path.read_text().splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, _, value = line.partition(":")
        if key == "name":
            found.append([])
        found[-1].append((key, value.strip()))
    return found


def values(vector, key):
    return [value for name, value in vector if name == key]


def one(vector, key, default):
    return (values(vector, key) or [default])[0]


def joined(vector, key):
    return bytes.fromhex("".join(values(vector, key)))


def outcome(read):
    try:
        return read()
    except Bad as bad:
        return [f"error={bad.args[0]}"]
    except More:
        return ["more"]


def check_cuts(data, parse):
    for cut in range(len(data)):
        try:
            parse(data[:cut])
        except More:
            continue
        raise AssertionError(f"cut at {cut} asks for no more")


def check_hello(vector):
    data = joined(vector, "hex")

    def read():
        hello, length = parse_hello(data)
        assert length == len(data)
        check_cuts(data, parse_hello)
        return [show_hello(hello)]

    return outcome(read)


def check_lane(vector):
    data, most = joined(vector, "hex"), int(one(vector, "most", 32))

    def parse(data):
        number = Reader(data, More()).varint()
        if number == 0:
            raise Bad("FieldTooSmall")
        if number > most:
            raise Bad("FieldTooLarge")
        return number

    def read():
        number = parse(data)
        check_cuts(data, parse)
        return [f"lane={number}"]

    return outcome(read)


def check_frame(vector):
    if values(vector, "plain"):
        chain, shown = Chain(), []
        for plain in values(vector, "plain"):
            plain = bytes.fromhex(plain)
            value = chain.advance(plain)
            shown.append(f"chain crc={crc32(plain):#x} chain={value:#x} short={value & 0xffff:#x}")
        return shown
    data, limit = joined(vector, "hex"), int(one(vector, "max", 256 << 10))
    parse = lambda data: parse_frame(data, limit, one(vector, "checks", "on") == "on")

    def read():
        frame = parse(data)
        check_cuts(data, parse)
        if frame[0] == "block":
            assert frame[6] + frame[4] == len(data)
            return [show_block(frame)]
        assert frame[4] == len(data)
        return [frame[1]]

    return outcome(read)


def check_records(vector):
    records, shown = Records(), []
    try:
        for plain in values(vector, "hex"):
            for record in records.parse(bytes.fromhex(plain)):
                shown.append(show_record(record))
    except Bad as bad:
        shown.append(f"error={bad.args[0]}")
    return shown


def check_codec(vector):
    plain, log = joined(vector, "plain"), int(one(vector, "window_log", 20))
    room = int(one(vector, "room", len(plain)))

    def read():
        got = decode(int(one(vector, "codec", 0)), joined(vector, "hex"), room, log)
        assert got is None or got == plain, got
        return ["plain"]

    return outcome(read)


def check_context(vector):
    prime, log = joined(vector, "prime"), int(one(vector, "window_log", 17))
    context, shown = Context(int(one(vector, "codec", 0)), log, prime), []
    try:
        for body, plain in zip(values(vector, "hex"), values(vector, "plain")):
            plain = bytes.fromhex(plain)
            got = context.decode(bytes.fromhex(body), int(one(vector, "room", len(plain))))
            assert got is None or got == plain, got
            shown.append("plain")
    except Bad as bad:
        shown.append(f"error={bad.args[0]}")
    return shown


def check_envelope(vector):
    plain = joined(vector, "plain")
    dictionaries = [bytes.fromhex(value) for value in values(vector, "dictionary")]
    max_plain, least_name = int(one(vector, "max", 1 << 20)), int(one(vector, "least_name", 4))
    data = joined(vector, "hex")

    def read(data):
        got = parse_envelope(data, dictionaries, max_plain, least_name)
        assert got is None or got == plain, got
        return ["plain"]

    got = outcome(lambda: read(data))
    if got == ["plain"]:
        for cut in range(len(data)):
            assert outcome(lambda: read(data[:cut])) != ["plain"], cut
    return got


def check_left(vector):
    base = bytes((i * i >> 8) & 255 for i in range(int(one(vector, "base", 0))))
    lengths = [int(length) for length in one(vector, "blocks", "").split()]
    carried = bytes((3 * i * i >> 9) & 255 for i in range(sum(lengths)))
    end = len(carried)
    points = [end] + [at for at in range(8192, end, 8192)][::-1]
    shown = []
    for at in points:
        left = (base + carried[:at])[-(32768 if at == end else 16384):]
        name = hashlib.sha256(joined(vector, "connector") + joined(vector, "acceptor") + left)
        shown.append(f"at={at} length={len(left)} name={name.hexdigest()}")
    # Whoever keeps fewer points keeps the latest.
    return shown[:max(1, len(values(vector, "expect")))]


def check_session(vector):
    session = Session(int(one(vector, "window", 1 << 20)), int(one(vector, "history", 0)), 33_554_411)
    for key, value in vector:
        if key in ("connector", "acceptor"):
            session.sides[0 if key == "acceptor" else 1].take(bytes.fromhex(value))
    return by_stream([f"{side.name} {line}" for side in session.sides for line in side.log])


def by_stream(lines):
    """Only the order within one stream of one side is promised."""
    return sorted(lines, key=lambda line: line.split()[:2])


FILES = {
    "hello.txt": check_hello,
    "lanes.txt": check_lane,
    "blocks.txt": check_frame,
    "control.txt": check_frame,
    "records.txt": check_records,
    "codecs.txt": check_codec,
    "contexts.txt": check_context,
    "session.txt": check_session,
    "envelope.txt": check_envelope,
    "left.txt": check_left,
}


def main():
    assert crc32(b"123456789") == 0xCBF43926
    failed = 0
    for name, check in FILES.items():
        found = vectors(Path(__file__).parent / name)
        if not found:
            print(f"{name}: no vectors")
            failed += 1
        for vector in found:
            expected, got = values(vector, "expect"), check(vector)
            if name == "session.txt":
                expected = by_stream(expected)
            if expected != got:
                failed += 1
                print(f"{name}: {vector[0][1]}\n  expected {expected}\n  got      {got}")
        print(f"{name}: {len(found)} vectors")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
