/* What the daemon does when the writer's process has exited: included by gpu_ownership.pml, run by its daemon.

   Order: takeover page -> poison on the board -> writer word (vacant, next generation) -> the slots' and rows' events are recorded again.
   (The event count, which stands before the last step, is in sleep.pml.) */

inline write_takeover_row() {
  atomic {
    highest = MAX(VERSION(publication[r]), highest_used[r]);
    i = 0; best = 0; best_slot = 0;
    do
    :: i == NS -> break
    :: else ->
       word = slot_word[AT(r, i)];
       highest = MAX(NUMBER(word), highest);
       if
#ifdef OMIT_TORN_HAS_NO_VERSION
       :: word & kHandedOut -> word = NUMBER(word)
#else
       :: word & kHandedOut -> word = 0
#endif
       :: (word & kHandedOut) == 0 -> word = NUMBER(word) /* a mere mark is left out */
       fi;
       if :: word != 0 && !complete[event[i]] -> word = 0 :: else fi;
       slot_word[AT(kTakeover, i)] = word;
       if :: word > best -> best = word; best_slot = i :: else fi;
       i++
    od;
    publication[kTakeover] = PUBLICATION(best, best_slot);
    highest_used[kTakeover] = highest
  }
}

/* The numbers (best, highest]. A slot's earlier numbers are below the one it has, so no good one is among them. */
inline poison() {
  atomic {
    v = best + 1;
#ifdef OMIT_POISON_ALL /* the newest published version only */
    if :: VERSION(publication[r]) > best -> v = VERSION(publication[r]); highest = v :: else fi;
#endif
    do
    :: v > highest -> break
    :: v <= highest -> poisoned[0] = poisoned[0] | BIT(v); poisoned[1] = poisoned[1] | BIT(v); v++
    od;
    v = 0
  }
}

inline takeover(dead) {
  r = dead;
#ifdef OMIT_RELEASE_AFTER_POISON
  released[r] = true;
#endif
#ifdef OMIT_TAKEOVER_BEFORE_WRITER_WORD
  atomic { writer_word = kTakeover; generation++; moving = false };
  write_takeover_row();
  poison();
#else
  write_takeover_row();
  poison();
  atomic { writer_word = kTakeover; generation++; moving = false };
#endif
  atomic { released[r] = true; handled[r] = true; r = 0; i = 0; word = 0; best = 0; best_slot = 0; highest = 0 }
}
