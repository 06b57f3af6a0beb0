/* pin.h: prompts whose blocks stay in the cache. */
#ifndef ENGINE_PIN_H
#define ENGINE_PIN_H

enum {
    PINNED_WINDOWS = 8 /* prompts for whose windows there is room beside those of running sequences */
};

#endif
