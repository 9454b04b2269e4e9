/* Fences: what the GPU's streams wait for. Each stream is a process that works behind the host.

   Steps          begin_write (order behind W_n, the slot's read fences and its drop fence; hand out), publish, drop,
                  acquire's load of the write fence, release with its read fence, leave; slots = 1 too (-DNS=1).
   Bounded        one living writer that alternates between two streams, to version VM and MAX_DROPS drops; session 0 =
                  threads 0 and 1 on one row, each with a stream of its own, K0 reads each; session 1 = thread 2 with a
                  stream, K1 reads, then it leaves. A fence is the number of an operation on a stream; a join of fences
                  is one number for each stream.
   Not modelled   subscribing late and read by threads of the host (holds.pml); deaths (gpu_ownership.pml).
   Property       a stream that reads version v after its fences finds v's bytes. */

#ifndef NS
#define NS 2
#endif
#ifndef VM
#define VM 4
#endif
#ifndef K0
#define K0 1
#endif
#ifndef K1
#define K1 1
#endif
#ifndef MAX_DROPS
#define MAX_DROPS 1
#endif
#ifndef TRIES
#define TRIES 5
#endif
#include "words.pml"

#define kOps (VM + MAX_DROPS + 1) /* operation 0 is long complete, 1 wrote version 1 */
#define ROW(t) ((t) / 2)
#define AT(t, slot) ((t) * NS + (slot))

/* writer row */ byte publication = PUBLICATION(1, 0), slot_word[NS], write_fence[NS], drop_fence[NS];
/* reader rows */ byte holds[2], read_fence[3 * NS]; /* one value for each reading stream */
/* board */ bool subscribed1 = true;
/* private to session 0 */ byte count[NS];
#ifdef OMIT_FENCE_OF_EARLIER_HOLD
byte released_since_bit[3 * NS];
#endif

/* ghosts */ byte content[NS]; bool complete[kOps + 1];
/* the readers' streams: one read in the queue of each */
byte read_slot[3], read_version[3], read_waits_for[3], reads_enqueued[3], reads_complete[3];
/* the writer's streams: one operation in the queue of each; version 0 = a drop, which leaves the bytes torn */
byte op[2], op_slot[2], op_version[2], op_waits_for_write[2], op_waits_for_drop[2], op_waits_for_reads[6];

inline set_hold() {
  if
  :: atomic { t == 2 -> holds[1] = holds[1] | BIT(s) }
  :: atomic { t != 2 -> count[s]++; holds[0] = holds[0] | BIT(s) }
  fi
}

inline undo() {
  if
  :: atomic { t == 2 -> holds[1] = holds[1] & ~BIT(s) }
  :: atomic { t != 2 -> count[s]--; if :: count[s] == 0 -> holds[0] = holds[0] & ~BIT(s) :: else fi }
  fi
}

inline acquire() { /* -> v, s, fence; v = 0: no current version (slots = 1, after a drop) */
  do
  :: atomic { v = VERSION(publication); s = SLOT(publication) };
     set_hold();
     if
     :: atomic { slot_word[s] == v -> break }
     :: atomic { slot_word[s] == 0 -> v = 0 }; undo(); break
     :: slot_word[s] != v && slot_word[s] != 0 -> undo()
     fi
  od;
  if :: atomic { v != 0 -> fence = write_fence[s] } :: v == 0 fi
}

/* Session 0 has one word for the slot's read fence: a join. Its other thread's part must not be lost. */
inline store_read_fence() {
#if defined(OMIT_FENCE_OF_EARLIER_RELEASES) /* only the last releaser's */
  if
  :: count[s] == 0 -> read_fence[AT(t, s)] = reads_enqueued[t]; read_fence[AT(1 - t, s)] = 0
  :: else
  fi
#elif defined(OMIT_FENCE_OF_EARLIER_HOLD) /* the releases since the bit was last set, not those before */
  released_since_bit[AT(t, s)] = reads_enqueued[t];
  if
  :: count[s] == 0 ->
     read_fence[AT(0, s)] = released_since_bit[AT(0, s)]; released_since_bit[AT(0, s)] = 0;
     read_fence[AT(1, s)] = released_since_bit[AT(1, s)]; released_since_bit[AT(1, s)] = 0
  :: else
  fi
#else
  read_fence[AT(t, s)] = reads_enqueued[t]
#endif
}

inline release() {
  if
  :: t == 2 ->
#ifdef OMIT_FENCE_BEFORE_CLEAR
     holds[1] = holds[1] & ~BIT(s);
     read_fence[AT(2, s)] = reads_enqueued[2]
#else
     read_fence[AT(2, s)] = reads_enqueued[2];
     holds[1] = holds[1] & ~BIT(s)
#endif
  :: t != 2 ->
#ifdef OMIT_LOCK_OF_FENCE /* the join is computed outside the critical section */
     other = read_fence[AT(1 - t, s)];
     atomic { read_fence[AT(t, s)] = reads_enqueued[t]; read_fence[AT(1 - t, s)] = other };
     atomic { count[s]--; if :: count[s] == 0 -> holds[0] = holds[0] & ~BIT(s) :: else fi }
#else
     /* One critical section; the writer, outside, may see the fence before it sees the bit go. */
     atomic { count[s]--; store_read_fence(); if :: count[s] == 0 -> skip :: else -> goto released fi };
     atomic { if :: count[s] == 0 -> holds[0] = holds[0] & ~BIT(s) :: else fi }
#endif
  fi;
released:
  skip
}

proctype reader(byte t) {
  byte s, v, fence, reads, last;
#ifdef OMIT_LOCK_OF_FENCE
  byte other;
#endif
  do
  :: reads == (t == 2 -> K1 : K0) -> break
  :: reads < (t == 2 -> K1 : K0) ->
     reads++;
     acquire();
     if
     :: v == 0
     :: v != 0 ->
        atomic { /* enqueued: wait for the write fence, read, signal the read fence */
          read_version[t] == 0 ->
          assert(v >= last); last = v;
          read_slot[t] = s; read_version[t] = v; read_waits_for[t] = fence; reads_enqueued[t]++
        };
        release()
     fi;
     atomic { s = 0; v = 0; fence = 0 }
  od;
  if
  :: t == 2 -> /* leave: the mask is empty, and the daemon checks the fences */
#ifndef OMIT_LEAVE_WAITS_FOR_FENCES
     reads_complete[2] == reads_enqueued[2];
#endif
     subscribed1 = false
  :: else
  fi
}

proctype reading_stream(byte t) {
end:
  do
  :: atomic {
       read_version[t] != 0 && complete[read_waits_for[t]] ->
       assert(content[read_slot[t]] == read_version[t]);
       read_slot[t] = 0; read_version[t] = 0; read_waits_for[t] = 0; reads_complete[t]++
     }
  od
}

#define MAY_START(x)                                                                                   \
  (op[x] != 0 && complete[op_waits_for_write[x]] && complete[op_waits_for_drop[x]] &&                  \
   reads_complete[0] >= op_waits_for_reads[3 * x] && reads_complete[1] >= op_waits_for_reads[3 * x + 1] && \
   reads_complete[2] >= op_waits_for_reads[3 * x + 2])

proctype writing_stream(byte x) {
end:
  do
  :: atomic { MAY_START(x) -> content[op_slot[x]] = TORN };
     atomic {
       if :: op_version[x] != 0 -> content[op_slot[x]] = op_version[x] :: else fi;
       complete[op[x]] = true; op[x] = 0;
       op_slot[x] = 0; op_version[x] = 0; op_waits_for_write[x] = 0; op_waits_for_drop[x] = 0;
       op_waits_for_reads[3 * x] = 0; op_waits_for_reads[3 * x + 1] = 0; op_waits_for_reads[3 * x + 2] = 0
     }
  od
}

/* A row that has left the board is not looked at: its fences are complete. */
inline load_read_fences() {
  d_step { r0 = read_fence[AT(0, s)]; r1 = read_fence[AT(1, s)]; r2 = (subscribed1 -> read_fence[AT(2, s)] : 0) }
}

inline begin_write() { /* -> held: the mask is taken back; else r0..r2 */
  old = slot_word[s];
#ifdef OMIT_READ_FENCES_AFTER_SCAN
  load_read_fences();
#endif
  slot_word[s] = old | kWriting; /* mark */
  held = (holds[0] & BIT(s)) != 0;
  atomic { if :: subscribed1 -> held = held || ((holds[1] & BIT(s)) != 0) :: else fi };
  if
  :: held -> slot_word[s] = old /* take_back */
  :: !held ->
#ifdef OMIT_READ_FENCES
     skip
#elif !defined(OMIT_READ_FENCES_AFTER_SCAN)
     load_read_fences()
#endif
  fi
}

inline enqueue(version) { /* the lease's work, on stream x, and its signal */
  atomic {
    op[x] == 0 ->
    operations++; op[x] = operations; op_slot[x] = s; op_version[x] = version;
    op_waits_for_write[x] = write_fence[SLOT(publication)];
#ifndef OMIT_DROP_FENCE
    op_waits_for_drop[x] = drop_fence[s];
#endif
    op_waits_for_reads[3 * x] = r0; op_waits_for_reads[3 * x + 1] = r1; op_waits_for_reads[3 * x + 2] = r2;
    r0 = 0; r1 = 0; r2 = 0
  }
}

inline publish() {
#ifdef OMIT_WRITE_FENCE_BEFORE_PUBLICATION
  slot_word[s] = VERSION(publication) + 1;
  publication = PUBLICATION(VERSION(publication) + 1, s);
  write_fence[s] = operations
#else
  write_fence[s] = operations;
  slot_word[s] = VERSION(publication) + 1;
  publication = PUBLICATION(VERSION(publication) + 1, s)
#endif
}

inline drop() { drop_fence[s] = operations; slot_word[s] = 0 }

proctype writer() {
  byte s, old, x, tries, drops, operations = 1, r0, r1, r2;
  bool held;
  do
  :: VERSION(publication) < VM && tries < TRIES ->
     atomic {
       tries++;
       if
       :: NS == 1 -> s = 0
       :: NS > 1 && SLOT(publication) != 0 -> s = 0
       :: NS > 1 && SLOT(publication) != 1 -> s = 1
       :: NS > 2 && SLOT(publication) != 2 -> s = 2
       fi
     };
     begin_write();
     if
     :: held
     :: !held -> enqueue(VERSION(publication) + 1); publish(); x = 1 - x
     :: !held && drops < MAX_DROPS -> drops++; enqueue(0); drop(); x = 1 - x
     fi;
     atomic { s = 0; old = 0; held = false; r0 = 0; r1 = 0; r2 = 0 }
  :: else -> break
  od
}

init {
  atomic {
    slot_word[0] = 1; write_fence[0] = 1; content[0] = 1; complete[0] = true; complete[1] = true;
    run reader(0); run reading_stream(0);
#ifndef NO_THREAD1
    run reader(1); run reading_stream(1);
#endif
#ifndef NO_THREAD2
    run reader(2); run reading_stream(2);
#endif
    run writer(); run writing_stream(0); run writing_stream(1)
  }
}
