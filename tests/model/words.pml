/* Words that every model shares. A version fits 6 bits; flags stand beside it in a slot word, as in the pages.
   A publication is one word: version * NS + slot, so that it is loaded and stored in one step. */
#define kWriting 128
#define kHandedOut 64
#define NUMBER(word) ((word) & 63)
#define PUBLICATION(version, slot) ((version) * NS + (slot))
#define VERSION(publication_word) ((publication_word) / NS)
#define SLOT(publication_word) ((publication_word) % NS)
#define BIT(slot) (1 << (slot))

/* Ghost value of a slot's bytes while somebody writes them. Complete bytes have the value of their version. */
#define TORN 255
