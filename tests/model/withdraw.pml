/* Withdraw: after the withdrawn flag no acquire succeeds, and the bytes are reused once nobody has them.

   Steps          acquire, undo, release against a writer word with the flag withdrawn; begin_write's check of it, publish;
                  the daemon's withdraw, its wait and the reuse of the bytes for somebody else.
   Bounded        session 0 = threads 0 and 1 on one row, READS tries each; session 1 = thread 2, which subscribes late, if
                  the daemon still lets it; a writer to version VM; one stream for each reader and for the writer; two slots.
   Not modelled   deaths: a dead process's row counts as empty and its fences as complete once it has exited.
   Property       neither a reader's nor a writer's work, on the host or on a stream, meets bytes that are somebody else's. */

#define NS 2
#ifndef VM
#define VM 3
#endif
#ifndef READS
#define READS 1
#endif
#include "words.pml"

#define kOthers 77 /* the bytes belong to another array */
#define ROW(t) ((t) / 2)
#define AT(t, slot) ((t) * NS + (slot))

/* writer row */ byte publication = PUBLICATION(1, 0), slot_word[NS], write_fence[NS]; bool writing;
/* reader rows */ byte holds[2], read_fence[3 * NS]; /* one value for each reading stream */
/* board */ bool withdrawn; /* in the writer word, which a load takes as one */ bool subscribed1;
/* private to session 0 */ byte count[NS];
/* ghosts */ byte content[NS], reads_enqueued[3], reads_complete[3]; bool write_complete[VM + 2];
byte read_slot[3], read_version[3], op_slot, op_version, op_waits_for_reads[3];

inline set_hold() {
  if
  :: atomic { t == 2 -> holds[1] = holds[1] | BIT(s) }
  :: atomic { t != 2 -> count[s]++; holds[0] = holds[0] | BIT(s) }
  fi
}

inline clear_hold() {
  if
  :: atomic { t == 2 -> holds[1] = holds[1] & ~BIT(s) }
  :: atomic { t != 2 -> count[s]--; if :: count[s] == 0 -> holds[0] = holds[0] & ~BIT(s) :: else fi }
  fi
}

#define undo() clear_hold()

inline release() {
#ifdef OMIT_FENCE_BEFORE_CLEAR
  clear_hold();
  read_fence[AT(t, s)] = reads_enqueued[t]
#else
  read_fence[AT(t, s)] = reads_enqueued[t];
  clear_hold()
#endif
}

inline acquire() { /* -> v, s; v = 0: withdrawn */
  do
  :: atomic { withdrawn -> v = 0; break }
  :: !withdrawn ->
     atomic { v = VERSION(publication); s = SLOT(publication) };
     set_hold();
     ok = (slot_word[s] == v);
#ifndef OMIT_RECHECK_OF_WRITER_WORD
     ok = ok && !withdrawn;
#endif
     if :: ok -> break :: !ok -> undo() fi
  od
}

proctype reader(byte t) {
  byte s, v, reads;
  bool ok;
  if
  :: t != 2
  :: atomic { t == 2 && !withdrawn -> subscribed1 = true } /* a call: the daemon answers before or after the withdrawal */
  :: t == 2 && withdrawn -> goto done
  fi;
  do
  :: reads == READS -> break
  :: reads < READS ->
     reads++;
     acquire();
     if
     :: v == 0
     :: v != 0 ->
        if /* on the host, or on the stream: one of them is enough to fail */
        :: write_complete[v] -> assert(content[s] == v)
        :: atomic { read_version[t] == 0 -> read_slot[t] = s; read_version[t] = v; reads_enqueued[t]++ }
        fi;
        release()
     fi;
     atomic { s = 0; v = 0; ok = false }
  od;
done:
  skip
}

proctype reading_stream(byte t) {
end:
  do
  :: atomic {
       read_version[t] != 0 && write_complete[read_version[t]] ->
       assert(content[read_slot[t]] == read_version[t]);
       read_slot[t] = 0; read_version[t] = 0; reads_complete[t]++
     }
  od
}

#define READ_FENCES_PASSED                                                                       \
  (reads_complete[0] >= op_waits_for_reads[0] && reads_complete[1] >= op_waits_for_reads[1] && \
   reads_complete[2] >= op_waits_for_reads[2])

proctype writing_stream() {
end:
  do
  :: atomic {
       op_version != 0 && READ_FENCES_PASSED -> assert(content[op_slot] != kOthers); content[op_slot] = TORN
     };
     atomic {
       assert(content[op_slot] == TORN);
       content[op_slot] = op_version; write_complete[op_version] = true; op_version = 0; op_slot = 0;
       op_waits_for_reads[0] = 0; op_waits_for_reads[1] = 0; op_waits_for_reads[2] = 0
     }
  od
}

proctype writer() {
  byte s, old;
  do
  :: VERSION(publication) == VM -> break
  :: VERSION(publication) < VM ->
#ifdef OMIT_WRITING_BEFORE_CHECK
     if
     :: withdrawn -> break
     :: !withdrawn -> writing = true;
#else
     writing = true;
     if
     :: withdrawn -> writing = false; break
     :: !withdrawn ->
#endif
        atomic { s = 1 - SLOT(publication); old = slot_word[s]; slot_word[s] = old | kWriting };
        if
        :: (holds[0] & BIT(s)) == 0 && (!subscribed1 || (holds[1] & BIT(s)) == 0) ->
           atomic {
             op_version == 0 -> op_slot = s; op_version = VERSION(publication) + 1;
             op_waits_for_reads[0] = read_fence[AT(0, s)]; op_waits_for_reads[1] = read_fence[AT(1, s)];
             op_waits_for_reads[2] = read_fence[AT(2, s)]
           };
           write_fence[s] = VERSION(publication) + 1;
           slot_word[s] = VERSION(publication) + 1;
           publication = PUBLICATION(VERSION(publication) + 1, s)
        :: else -> slot_word[s] = old
        fi;
        atomic { s = 0; old = 0; writing = false }
     fi
  od
}

inline wait_for_fences() {
  atomic { /* any order: each of them was stored before its bit was cleared, and none is stored afterwards */
    reads_complete[0] >= read_fence[AT(0, s)] && reads_complete[1] >= read_fence[AT(1, s)] &&
    reads_complete[2] >= read_fence[AT(2, s)]
  }
}

inline reuse() { atomic { content[s] = kOthers } }

proctype daemon() {
  byte s;
  withdrawn = true;
#ifndef OMIT_WAIT_FOR_WRITING
  !writing;
#endif
#ifndef OMIT_WAIT_FOR_WRITE_FENCES
  write_complete[write_fence[0]] && write_complete[write_fence[1]];
#endif
  do
  :: s == NS -> break
  :: s < NS ->
#ifdef OMIT_HOLDS_BEFORE_FENCES
     wait_for_fences();
#endif
#ifndef OMIT_WAIT_FOR_HOLDS
     (holds[0] & BIT(s)) == 0;
     !subscribed1 || (holds[1] & BIT(s)) == 0;
#endif
#if !defined(OMIT_HOLDS_BEFORE_FENCES) && !defined(OMIT_WAIT_FOR_READ_FENCES)
     wait_for_fences();
#endif
     reuse();
     s++
  od
}

init {
  atomic {
    slot_word[0] = 1; content[0] = 1; write_complete[0] = true; write_complete[1] = true; write_fence[0] = 1;
    run reader(0); run reading_stream(0);
#ifndef NO_THREAD1
    run reader(1); run reading_stream(1);
#endif
#ifndef NO_THREAD2
    run reader(2); run reading_stream(2);
#endif
    run writer(); run writing_stream(); run daemon()
  }
}
