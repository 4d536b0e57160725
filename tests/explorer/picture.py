"""Pictures of pages that are small enough for the documentation: PNGs with a palette, by Python's own library."""
import struct
import zlib

# As many colours as a palette has.
MOST_COLOURS = 256


def small(data):
    """The same picture with at most 256 colours: those that few pixels have become their neighbours."""
    width, height, depth, kind, pixels = read(data)
    if depth != 8 or kind not in (2, 6):
        return data
    step = 3 if kind == 2 else 4
    counts = {}
    colours = [pixels[at:at + 3] for at in range(0, len(pixels), step)]
    for colour in colours:
        counts[colour] = counts.get(colour, 0) + 1
    palette = sorted(counts, key=lambda colour: (-counts[colour], colour))[:MOST_COLOURS]
    places = {colour: place for place, colour in enumerate(palette)}
    for colour in counts:
        if colour not in places:
            places[colour] = min(range(len(palette)), key=lambda place: sum((a - b) ** 2 for a, b in zip(palette[place], colour)))
    rows = bytearray()
    for row in range(height):
        rows.append(0)
        rows.extend(places[colour] for colour in colours[row * width:(row + 1) * width])
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b"")]
    made = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, content) for name, content in chunks)
    return min(data, made, key=len)


def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def read(data):
    """Width, height, depth, kind and the bytes of all pixels, without the filters of rows."""
    at, packed, head = 8, b"", None
    while at < len(data):
        length, = struct.unpack(">I", data[at:at + 4])
        name, content = data[at + 4:at + 8], data[at + 8:at + 8 + length]
        if name == b"IHDR":
            head = struct.unpack(">IIBBBBB", content)
        elif name == b"IDAT":
            packed += content
        at += 12 + length
    width, height, depth, kind = head[:4]
    step = {2: 3, 6: 4}.get(kind, 1)
    raw = zlib.decompress(packed)
    stride = width * step
    before = bytearray(stride)
    pixels = bytearray()
    for row in range(height):
        start = row * (stride + 1)
        line = unfiltered(raw[start], bytearray(raw[start + 1:start + 1 + stride]), before, step)
        pixels += line
        before = line
    return width, height, depth, kind, bytes(pixels)


def unfiltered(kind, line, above, step):
    for at in range(len(line) if kind else 0):
        left = line[at - step] if at >= step else 0
        corner = above[at - step] if at >= step else 0
        guess = (0, left, above[at], (left + above[at]) // 2, paeth(left, above[at], corner))[kind]
        line[at] = (line[at] + guess) & 255
    return line


def paeth(left, above, corner):
    estimate = left + above - corner
    near = [(abs(estimate - value), order, value) for order, value in enumerate((left, above, corner))]
    return min(near)[2]
