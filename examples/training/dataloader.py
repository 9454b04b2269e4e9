"""A PyTorch DataLoader whose workers read an array by themselves, whatever way they are started.

python dataloader.py [fork | forkserver | spawn]
"""

import os
import sys

import memlease
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    """The first axis of the current version, one tensor each: keep the array, not a view."""

    def __init__(self, array):
        self.array = array

    def __len__(self):
        return self.array.shape[0]

    def __getitem__(self, index):
        with self.array.read() as lease:  # the first one in a worker opens the array there
            return os.getpid(), torch.from_dlpack(lease)[index].clone()


def main():
    method = sys.argv[1] if len(sys.argv) > 1 else "fork"
    with memlease.connect() as client:
        array = client.put("training/frames", np.arange(256, dtype="f4").reshape(32, 8))
        loader = DataLoader(
            Frames(array),
            batch_size=4,
            num_workers=4,
            multiprocessing_context=method,
            persistent_workers=True,
        )
        for epoch in range(2):
            workers, total = set(), 0.0
            for pids, frames in loader:
                workers.update(pids.tolist())
                total += frames.sum().item()
            print(f"epoch {epoch}: {len(workers)} workers, sum {total}")
            array.put(array.get() + 1)  # the next epoch's


if __name__ == "__main__":
    main()
