// What a user can do with a tool or a prompt.
export const actionsFor = () => [];
