/* Replicas: an array on two devices that follow each other version by version.

   Steps          write and read on either device, the copy that a read makes first, the daemon's freeing of a replica that
                  nobody uses. Member 0 is the home, member 1 the replica. Each is an array of its own: its publication,
                  ownership and takeover are one step each here, and the subject of the other models.
   Bounded        PROCESSES, with TURNS reads and writes each, on either device; MAX_DEATHS at any step.
   Property       a number has one content wherever it stands; a read gives whole bytes, of a version at least as new as
                  the newest that was complete when it began; nobody waits for ever. */

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
bool pending[2], unsure[2] /* copied from what was not complete */, open[PROCESSES], dead[PROCESSES];

#define NEWEST (publication[0] > publication[1] -> publication[0] : publication[1])
#define PLACE_OF_NEWEST (publication[0] > publication[1] -> 0 : 1)

/* Ownership of a member: not while its owner writes, nor before its fences are complete. */
inline take(m) { atomic { !writing[m] && !pending[m] -> owner[m] = p; writing[m] = true } }
inline give_back(m) { writing[m] = false }

inline publish(m, number, bytes) { /* its fence is still to come */
  atomic {
    assert(number != lost_number[m]); /* whoever looked for it there was told so */
    assert(truth[number] == 0 || truth[number] == bytes);
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
       :: !dead[p] -> dead[p] = true; deaths++; bury(0); bury(1); if :: open[p] -> open[p] = false; users-- :: else fi
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

inline write_on(m) {
#ifndef OMIT_FLAG_BEFORE_PUBLICATION
  if :: m != HOME -> elsewhere = true :: else fi;
#endif
#ifdef OMIT_OWNERSHIP_OF_HOME
  if :: m == HOME -> take(HOME) :: else fi;
  n = highest_used + 1;
  highest_used = n;
#else
  take(HOME);
#ifdef OMIT_NUMBER_OF_HOME
  n = publication[m] + 1;
  if :: n > highest_used -> highest_used = n :: else fi;
#else
  highest_used++;
  n = highest_used;
#endif
#endif
  if :: m != HOME -> take(m) :: else fi;
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

/* The newest version comes to member m, by whoever finds first that it is not there. */
inline bring(m) {
  needs_home = (m == HOME);
  do
  :: atomic { publication[m] >= NEWEST -> least = publication[m]; break }
  :: else ->
     if :: needs_home && m != HOME -> elsewhere = true; take(HOME) :: else fi;
     take(m);
     atomic { has_home = needs_home; needs_home = (m == HOME) };
     atomic { n = NEWEST; from = PLACE_OF_NEWEST; c = content[from] }; /* held: its bytes stay */
     if
     :: publication[m] >= n
     :: else ->
#ifndef OMIT_SOURCE_COMPLETE
        !(publication[from] == n && pending[from]);
#endif
        if
        :: publication[from] < n /* lost meanwhile */
        :: publication[from] >= n ->
           half = (publication[from] == n && pending[from]);
           if
#ifndef OMIT_LOST_NUMBER
           :: n <= lost_number[m] && has_home -> highest_used++; n = highest_used; publish(m, n, c)
           :: n <= lost_number[m] && !has_home -> needs_home = true /* for a new number: once more, with it */
           :: n > lost_number[m] -> publish(m, n, c)
#else
           :: publish(m, n, c)
#endif
           fi
        fi
     fi;
     give_back(m);
     if :: has_home && m != HOME -> give_back(HOME) :: else fi
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
  byte n, c, from, turns, wanted, least;
  bool again, half, needs_home, has_home;
  {
    do
    :: turns == TURNS -> break
    :: turns < TURNS ->
       turns++;
       if
       :: true -> write_on(0)
       :: true -> open_replica(); write_on(1)
       :: true -> read_on(0)
       :: true -> open_replica(); read_on(1)
       fi;
       leave_replica();
       atomic { n = 0; c = 0; from = 0; wanted = 0; least = 0; half = false; needs_home = false; has_home = false }
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
