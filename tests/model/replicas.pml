/* Replicas: an array on two devices that follow each other version by version.

   Steps          write and read on either device, also a write at home by who holds a version elsewhere; the copy that a
                  read makes first; the daemon's freeing of a replica that nobody uses. Member 0 is the home, member 1 the replica. Each is an array of its own with two slots: its
                  publication, ownership and takeover are one step each here, and the subject of the other models. Who
                  copies holds a version, and so may keep a slot from the next writer.
   Bounded        PROCESSES, with TURNS reads and writes each, on either device; MAX_DEATHS at any step. REPLICA_ALONE:
                  writes there, and at home by who holds a version there, alone.
   Property       a number has one content wherever it stands, and a higher one no earlier content; a read gives whole
                  bytes, of a version at least as new as the newest that was complete when it began; nobody waits for
                  ever. */

#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef TURNS
#define TURNS 2
#endif
#ifndef MAX_DEATHS
#define MAX_DEATHS 1
#endif
#define HOME 0
#define TORN 99
#define NUMBERS 24

/* of each member */ byte publication[2], owner[2], lost_number[2]; bool writing[2];
/* on the home's board */ bool elsewhere;
/* in the home's writer row */ byte highest_used;
/* of the daemon */ byte users; /* processes that have the replica open */
/* ghosts */ byte content[2], before[2], content_before[2], truth[NUMBERS], writes, newest_complete, deaths;
byte holds_on[PROCESSES] /* a member + 1 */, holds[PROCESSES] /* a number */;
bool pending[2], unsure[2] /* copied from what was not complete */, open[PROCESSES], dead[PROCESSES];

#define NEWEST (publication[0] > publication[1] -> publication[0] : publication[1])
#define PLACE_OF_NEWEST (publication[0] > publication[1] -> 0 : 1)

/* Ownership of a member: not while its owner writes, nor before its fences are complete. Then a slot: one of two has the
   current version, the other one may be held. */
#define CAN_OWN(m) (!writing[m] && !pending[m])
#define HELD_BY(q, m) (holds_on[q] == m + 1 && holds[q] != publication[m])
#if PROCESSES == 2
#define HAS_SLOT(m) (!HELD_BY(0, m) && !HELD_BY(1, m))
#else
#define HAS_SLOT(m) (!HELD_BY(0, m) && !HELD_BY(1, m) && !HELD_BY(2, m))
#endif
inline own(m) { atomic { CAN_OWN(m) -> owner[m] = p; writing[m] = true } }
inline take(m) { own(m); HAS_SLOT(m) }
inline give_back(m) { writing[m] = false }
/* For a write on the replica, by who owns the home: not while he waits for a slot, or for who does. */
inline take_with_home(m) {
#ifdef OMIT_SLOT_WITHOUT_NUMBER
  take(m)
#else
  do
  :: atomic { CAN_OWN(m) && HAS_SLOT(m) -> owner[m] = p; writing[m] = true; break }
  :: atomic { !(CAN_OWN(m) && HAS_SLOT(m)) -> give_back(HOME) };
     take(m);
     give_back(m);
     own(HOME)
  od
#endif
}
/* Without waiting. */
inline try_own(m) { atomic { if :: CAN_OWN(m) -> owner[m] = p; writing[m] = true; got = true :: else -> got = false fi } }
inline try_take(m) {
  atomic { if :: CAN_OWN(m) && HAS_SLOT(m) -> owner[m] = p; writing[m] = true; got = true :: else -> got = false fi }
}

inline publish(m, number, bytes) { /* its fence is still to come */
  atomic {
    assert(number != lost_number[m]); /* whoever looked for it there was told so */
    assert(truth[number] == 0 || truth[number] == bytes);
    assert(number <= NEWEST || bytes >= content[PLACE_OF_NEWEST]); /* what is newest by its number was written last */
    truth[number] = bytes;
    before[m] = publication[m]; content_before[m] = content[m];
    publication[m] = number; content[m] = bytes; pending[m] = true; unsure[m] = half
  }
}

proctype stream(byte m) {
end:
  do
  :: atomic {
       pending[m] -> pending[m] = false;
       if :: publication[m] > newest_complete -> newest_complete = publication[m] :: else fi
     }
  od
}

/* The daemon, once a process has exited: what its streams had not completed is lost, and so is the number. */
inline bury(m) {
  if
  :: writing[m] && owner[m] == p -> writing[m] = false
  :: else
  fi;
  if
  :: pending[m] && owner[m] == p ->
     if :: unsure[1 - m] && publication[1 - m] == publication[m] -> content[1 - m] = TORN :: else fi;
     lost_number[m] = publication[m]; pending[m] = false;
     publication[m] = before[m]; content[m] = content_before[m]
  :: else
  fi
}

proctype death() {
  byte p;
end:
  do
  :: atomic {
       deaths < MAX_DEATHS ->
       select(p : 0 .. PROCESSES - 1);
       if
       :: !dead[p] ->
          dead[p] = true; deaths++; holds_on[p] = 0; bury(0); bury(1); if :: open[p] -> open[p] = false; users-- :: else fi
       :: else
       fi
     }
  od
}

#ifdef OMIT_KEEP_NEWEST
#define HOME_HAS_ALL true
#else
#define HOME_HAS_ALL (publication[1] <= publication[0] && !pending[0])
#endif

/* The daemon frees the replica once nobody has it open and the home has all that it has. */
proctype freeing() {
end:
  do
  :: atomic {
       users == 0 && publication[1] != 0 && !pending[1] && HOME_HAS_ALL ->
       publication[1] = 0; content[1] = 0; lost_number[1] = 0; before[1] = 0; content_before[1] = 0
     }
  od
}

inline open_replica() { atomic { if :: !open[p] -> open[p] = true; users++ :: else fi } }
inline leave_replica() { atomic { if :: open[p] -> open[p] = false; users-- :: else fi } }

inline take_to_write(m) {
#ifdef OMIT_OWNERSHIP_OF_HOME
  take(m)
#else
  if :: m != HOME -> take_with_home(m) :: else -> HAS_SLOT(HOME) fi
#endif
}

inline write_on(m) {
#ifndef OMIT_FLAG_BEFORE_PUBLICATION
  if :: m != HOME -> elsewhere = true :: else fi;
#endif
#ifndef OMIT_OWNERSHIP_OF_HOME
  own(HOME);
#endif
  take_to_write(m);
#ifdef OMIT_OWNERSHIP_OF_HOME
  n = highest_used + 1;
  highest_used = n;
#else
#ifdef OMIT_NUMBER_OF_HOME
  n = publication[m] + 1;
  if :: n > highest_used -> highest_used = n :: else fi;
#else
  highest_used++;
  n = highest_used;
#endif
#endif
  atomic { writes++; c = writes; half = false };
  publish(m, n, c);
#ifdef OMIT_FLAG_BEFORE_PUBLICATION
  if :: m != HOME -> elsewhere = true :: else fi;
#endif
  if :: m != HOME -> give_back(m) :: else fi;
#ifdef OMIT_OWNERSHIP_OF_HOME
  if :: m == HOME -> give_back(HOME) :: else fi
#else
  give_back(HOME)
#endif
}

inline write_home_holding() {
  atomic { if :: publication[1] != 0 -> holds_on[p] = 2; holds[p] = publication[1] :: else fi };
  write_on(HOME);
  atomic { holds_on[p] = 0; holds[p] = 0 }
}

/* A version of member `from` is held, and m owned: its content goes over, unless it is lost meanwhile; with 1 for `still`
   only if it is the newest version still. */
inline copy_as(m, as, still) {
#ifndef OMIT_SOURCE_COMPLETE
  !(publication[from] == n && pending[from]);
#endif
  atomic {
    half = (publication[from] == n && pending[from]);
    if
    :: publication[from] >= n && (still == 0 || n == NEWEST) -> publish(m, as, c)
    :: else
    fi
  }
}

/* The number was lost on m: the same content gets a new one, while nobody else gives any. */
inline copy_with_new_number(m) {
  if :: m != HOME -> elsewhere = true; try_own(HOME) :: else -> got = true fi;
  if
  :: got ->
     try_take(m);
     if
     :: got -> atomic { highest_used++; number = highest_used };
#ifdef OMIT_STILL_NEWEST
        copy_as(m, number, 0);
#else
        copy_as(m, number, 1);
#endif
        give_back(m)
     :: else
     fi;
     if :: m != HOME -> give_back(HOME) :: else fi
  :: else
  fi
}

/* The newest version comes to member m, by whoever finds first that it is not there. He holds it first and then tries to
   write: who cannot at once lets it go before he waits, for a moment or for his turn among the writers. */
inline bring(m) {
  do
  :: atomic { publication[m] >= NEWEST -> least = publication[m]; break }
  :: else ->
     atomic { n = NEWEST; from = PLACE_OF_NEWEST; c = content[from]; holds_on[p] = from + 1; holds[p] = n };
#ifdef OMIT_AT_ONCE
     take(m); got = true;
#else
     try_take(m);
#endif
     if
     :: !got
     :: got && publication[m] >= n -> give_back(m)
#ifdef OMIT_LOST_NUMBER
     :: got && publication[m] < n -> copy_as(m, n, 0); give_back(m)
#else
     :: got && publication[m] < n && n > lost_number[m] -> copy_as(m, n, 0); give_back(m)
     :: got && publication[m] < n && n <= lost_number[m] -> give_back(m); copy_with_new_number(m)
#endif
     fi;
     atomic { holds_on[p] = 0; holds[p] = 0 };
     if
     :: atomic { (CAN_OWN(m) && HAS_SLOT(m) && CAN_OWN(HOME)) || publication[m] >= NEWEST -> got = false }
     :: own(m); got = false; give_back(m) /* its turn */
     fi
  od
}

#ifdef OMIT_COMPARE
#define MAY_READ (publication[m] >= n && lost_number[m] != n)
#else
#define MAY_READ (publication[m] >= n && lost_number[m] != n && n >= least)
#endif

inline read_on(m) {
  atomic { wanted = newest_complete; again = true };
  do
  :: again ->
     if
     :: m != HOME || elsewhere -> open_replica(); bring(m)
     :: else -> least = 0
     fi;
     atomic { n = publication[m]; c = content[m] };
     !(publication[m] == n && pending[m]); /* its stream waits for the fence */
     if
     :: publication[m] < n || lost_number[m] == n /* lost: the read fails, and is made again */
#ifndef OMIT_COMPARE
     :: n < least /* that one was lost before it could be held */
#endif
     :: MAY_READ -> again = false
     fi
  :: !again -> break
  od;
  assert(n >= wanted && (n == 0 || c == truth[n]))
}

proctype process(byte p) {
  byte n, c, from, turns, wanted, least, number;
  bool again, half, got;
  {
    do
    :: turns == TURNS -> break
    :: turns < TURNS ->
       turns++;
       if
#ifndef REPLICA_ALONE
       :: true -> write_on(0)
       :: true -> read_on(0)
       :: true -> open_replica(); read_on(1)
#endif
       :: true -> open_replica(); write_on(1)
       :: true -> open_replica(); write_home_holding()
       fi;
       leave_replica();
       atomic { n = 0; c = 0; from = 0; wanted = 0; least = 0; half = false; number = 0 }
    od
  } unless { dead[p] }
}

init {
  atomic {
    byte i;
    for (i : 0 .. PROCESSES - 1) { run process(i) }
    run stream(0); run stream(1); run death(); run freeing()
  }
}
