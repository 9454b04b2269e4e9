"""Part 2: questions that only hardware can answer. `probes.py QUESTION` answers one.

Without a question it lists them. What all of them keep to is in asking.py.
"""

import asking
import probe_capture
import probe_contexts
import probe_deaths
import probe_events
import probe_memory
import probe_namespaces
import probe_waits
import probe_words

# In the order in which they are asked: what the rest of a run depends on comes first.
MODULES = [
    probe_memory,
    probe_events,
    probe_deaths,
    probe_waits,
    probe_words,
    probe_namespaces,
    probe_capture,
    probe_contexts,
]

if __name__ == "__main__":
    asking.main(MODULES)
