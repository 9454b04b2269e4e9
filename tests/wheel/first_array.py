import memlease

with memlease.connect() as client:
    field = client.create("first/field", shape=(480, 640), dtype="float32")
    with field.write() as lease:
        lease[...] = 1
    print(field.read().array.mean())
