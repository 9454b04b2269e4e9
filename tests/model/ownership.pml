/* Writer ownership: whose row counts, and how it moves. Included by lock.pml and host.pml.

   The daemon's half is server/core/writer_ownership, the asking half client/arrays/begin_write. Whoever includes this says
   what a row is: adopt(from) copies a row into that of `me`, take_over() takes the row of `p` over into the takeover row.
   Process `me` begins a write with may_begin(), and calls the daemon by call().

   A call may be answered late: what it was told need not be true any more when it acts on it. Of the time that an offer
   holds the model knows nothing: it may expire as soon as another process asks. */

#define kTakeover WRITERS /* the row behind the writers' */
#define kNobody 9

/* board: one word */ byte writer_word = kTakeover, generation; bool moving;
/* writer rows */ bool writing[WRITERS];
/* the daemon's own */ byte owner = kNobody, pending = kNobody, offer, last_offer; bool offered;
/* calls */ byte request[WRITERS], request_offer[WRITERS];
/* answers */ byte answer[WRITERS], answer_from[WRITERS], answer_offer[WRITERS];
#define kAsk 1
#define kConfirm 2
#define kCancel 3
#define kLeave 4
#define kGranted 1
#define kOffered 2
#define kBusy 3
#define kDone 4
/* ghosts */ bool alive[WRITERS] = true, handled[WRITERS]; byte deaths;

/* ---- The process `me`. */

inline call(what, its_offer) {
  atomic { answer[me] = 0; request_offer[me] = its_offer; request[me] = what };
  answer[me] != 0
}

inline may_begin() { /* -> mine; else `writing` is clear */
#ifdef OMIT_WRITING_BEFORE_CHECK
#ifdef OMIT_CHECK_OF_MOVING
  mine = (writer_word == me);
#else
  mine = (writer_word == me && !moving);
#endif
  if :: mine -> writing[me] = true :: !mine fi
#else
  writing[me] = true;
#ifdef OMIT_CHECK_OF_MOVING
  mine = (writer_word == me);
#else
  mine = (writer_word == me && !moving);
#endif
  if :: mine :: !mine -> writing[me] = false fi
#endif
}

inline ask() { /* asks once, and takes the offer if there is one */
  call(kAsk, 0);
  if
  :: atomic { answer[me] != kOffered -> answer[me] = 0 }
  :: atomic {
       answer[me] == kOffered -> from = answer_from[me]; number = answer_offer[me];
       answer_from[me] = 0; answer_offer[me] = 0
     };
#ifdef OMIT_ADOPT_BEFORE_CONFIRM
     call(kConfirm, number);
     if :: answer[me] == kDone -> adopt() :: else fi;
#else
     adopt();
     call(kConfirm, number);
#endif
     atomic { from = 0; number = 0; answer[me] = 0 }
  fi
}

inline wait_limit_expired() { call(kCancel, 0); answer[me] = 0 }

/* ---- The daemon, which answers process `p`. */

#define ANSWER(what) answer[p] = what; request[p] = 0; request_offer[p] = 0

inline cancel_move(whose) {
  atomic {
    if
    :: pending == whose -> pending = kNobody; offered = false;
#ifndef OMIT_CANCEL_CLEARS_MOVING
       moving = false
#endif
    :: pending != whose
    fi
  }
}

inline promise() {
  offered = true; last_offer++; offer = last_offer; answer_offer[p] = offer; answer_from[p] = writer_word;
  ANSWER(kOffered)
}

inline offer_row() { /* one load, then words of its own */
#ifdef OMIT_MOVING_BEFORE_LOOK
  if
  :: atomic { owner != kNobody && writing[owner] -> ANSWER(kBusy) }
  :: else -> moving = true; atomic { promise() }
  fi
#else
  atomic {
    if
#ifndef OMIT_LOOK_AT_WRITING
    :: owner != kNobody && writing[owner] -> ANSWER(kBusy)
#endif
    :: else -> promise()
    fi
  }
#endif
}

inline answer_ask() {
  if
  :: pending != kNobody && pending != p -> if :: busy = true :: cancel_move(pending) fi /* in time, or expired */
  :: else
  fi;
  if
  :: atomic { busy -> busy = false; ANSWER(kBusy) }
  :: atomic { !busy && owner == p -> ANSWER(kGranted) }
  :: !busy && owner != p ->
     if
     :: pending == kNobody -> atomic { pending = p; offered = false };
#ifndef OMIT_MOVING_BEFORE_LOOK
        moving = true
#endif
     :: pending != kNobody
     fi;
     offer_row()
  fi
}

#ifdef OMIT_OFFER_NUMBER
#define STANDS(its_offer) (pending == p && offered)
#elif defined(OMIT_CONFIRM_BY_WHOM)
#define STANDS(its_offer) (pending != kNobody && offered)
#else
#define STANDS(its_offer) (pending == p && offered && offer == its_offer)
#endif

inline answer_confirm() {
  if
  :: STANDS(request_offer[p]) ->
     atomic {
       pending = kNobody; offered = false; owner = p;
       writer_word = p; generation++; moving = false;
       ANSWER(kDone)
     }
  :: atomic { else -> ANSWER(kBusy) }
  fi
}

inline gone() { /* it has left, or its process has exited */
#ifndef OMIT_GONE_CANCELS
  cancel_move(p);
#endif
  if
  :: owner == p ->
     take_over();
     atomic {
       owner = kNobody;
       if
       :: pending != kNobody ->
#ifndef OMIT_OFFER_ENDS_WITH_OWNER /* what it was promised is the dead owner's row */
          offered = false;
#endif
          moving = true
       :: pending == kNobody
       fi
     }
  :: owner != p
  fi
}

inline serve() {
  if
  :: request[p] == kAsk -> answer_ask()
  :: request[p] == kConfirm -> answer_confirm()
  :: request[p] == kCancel -> cancel_move(p); atomic { ANSWER(kDone) }
  :: request[p] == kLeave -> gone(); atomic { ANSWER(kDone) }
  :: request[p] == 0
  fi
}

inline reap() {
  atomic { request[p] = 0; request_offer[p] = 0 };
  gone();
  atomic { handled[p] = true; answer[p] = 0; answer_from[p] = 0; answer_offer[p] = 0 }
}

proctype killer() { /* the processes are alike at the beginning: with one death it is the first one's */
end:
  do
  :: atomic { deaths < MAX_DEATHS && alive[0] -> alive[0] = false; deaths++ }
#if MAX_DEATHS > 1
  :: atomic { deaths < MAX_DEATHS && alive[1] -> alive[1] = false; deaths++ }
#endif
  od
}

/* When nothing can go on: no dead process is waited for, and a move belongs to somebody who can confirm it. */
#define SETTLED(process) (alive[process] || (handled[process] && pending != process && owner != process))
#if WRITERS == 3
#define ALL_SETTLED (SETTLED(0) && SETTLED(1) && SETTLED(2))
#else
#define ALL_SETTLED (SETTLED(0) && SETTLED(1))
#endif
proctype monitor() { timeout -> assert(ALL_SETTLED && (!moving || pending != kNobody)) }
