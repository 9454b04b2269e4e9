"""Coroutines in a loop of their own."""

import asyncio

LONG_S = 20


def run(coroutine):
    """Run it in a loop, within a time."""

    async def main():
        async with asyncio.timeout(LONG_S):
            return await coroutine

    return asyncio.run(main())
